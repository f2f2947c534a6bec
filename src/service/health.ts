import { messageOf } from "../error.ts";
import type { Health } from "../http/app.ts";
import type { Log } from "../log.ts";
import type { Registry } from "../model/registry.ts";
import type { Sandbox } from "../process/sandbox/sandbox.ts";
import type { Secrets } from "../redact.ts";
import type { Store } from "../store/store.ts";
import { version } from "../package-root.ts";

/** The health of the service. Every rejection that nobody handled is counted, and makes it unhealthy. */

export type HealthDeps = { store: Store; registry: Registry; sandbox: Sandbox; secrets: Secrets; log: Log } & {
  /** Looked up at each call, so that installing what is missing needs no restart. */
  mcpServers: () => Health["mcpServers"];
};

export type HealthWatch = { read(this: void): Promise<Health>; unhandled(this: void, error: unknown): void };

export const createHealth = ({ store, registry, sandbox, secrets, mcpServers, log }: HealthDeps): HealthWatch => {
  let faults = 0;
  return {
    async read() {
      const reason = await store.check().then(
        () => null,
        (error: unknown) => secrets.all(messageOf(error)),
      );
      const { tier, name, network } = sandbox;
      return {
        healthy: reason === null && faults === 0,
        version,
        sandbox: { tier, name, network },
        model: registry.active(),
        store: { kind: store.kind, ok: reason === null, reason },
        providers: registry
          .breakers()
          .flatMap(([id, { state, ...held }]) => (state === "closed" ? [] : [{ id, ...held }])),
        mcpServers: mcpServers(),
        faults,
      };
    },

    unhandled(error) {
      faults += 1;
      const stack = error instanceof Error ? error.stack : undefined;
      log.error({ error: messageOf(error), stack, faults }, "an unhandled error; the service continues");
    },
  };
};
