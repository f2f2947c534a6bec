import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ProviderConfig } from "../../../src/config/file.ts";
import { temporary } from "../project.ts";
import { startService, type TestService } from "../service.ts";

/**
 * Cassettes for tests: recorded once from a provider (the mock, mostly), committed, and played back ever after. Record
 * again with `TEST_RECORD=1 vitest run <file>` after a change of what tools answer.
 */

export const cassettes = fileURLToPath(new URL("../../fixtures/cassettes", import.meta.url));

export const recordsAnew = process.env["TEST_RECORD"] !== undefined;

export type Recording = {
  name: string;
  /** The provider to record from, and its model. Only asked for when there is something to record. */
  provider: () => Promise<ProviderConfig>;
  model: string;
  /** What the file's header says of where it comes from. */
  note: string;
  /** Runs one Task to its end on a service whose model this is. */
  act: (service: TestService, model: `${string}/${string}`) => Promise<void>;
};

/** Records the cassette if there is none, or if it is wanted. */
export const ensureCassette = async ({ name, provider, model, note, act }: Recording): Promise<void> => {
  const file = join(cassettes, `${name}.json`);
  if (existsSync(file) && !recordsAnew) return;
  using root = temporary("sortie-record-");
  const config = join(root.path, "config.jsonc");
  const folder = join(root.path, "recorded");
  writeFileSync(config, JSON.stringify({ providers: { recorded: await provider() } }));
  {
    await using service = await startService(join(root.path, "data"), {
      SERVICE_CONFIG: config,
      SERVICE_RECORD: folder,
    });
    await act(service, `recorded/${model}`);
  }
  const [found, ...more] = readdirSync(folder);
  if (found === undefined || more.length > 0) throw new Error(`Expected one recording, got ${more.length + 1}`);
  const { cassette, ...rest } = JSON.parse(readFileSync(join(folder, found), "utf8")) as Record<string, unknown>;
  mkdirSync(cassettes, { recursive: true });
  writeFileSync(file, `${JSON.stringify({ cassette, note, ...rest }, null, 2)}\n`);
};

/** Records if needed, then runs the same Task on the recorded exchanges alone. */
export const onCassette = async (recording: Recording): Promise<void> => {
  await ensureCassette(recording);
  using root = temporary("sortie-replay-");
  await using service = await startService(join(root.path, "data"), { SERVICE_CASSETTES: cassettes });
  await recording.act(service, `replay/${recording.name}`);
};
