import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServiceClient } from "../../src/client/client.ts";
import { loadConfig } from "../../src/config/config.ts";
import { silent } from "../../src/log.ts";
import { createService } from "../../src/service/service.ts";
import { type MockScript, startMockProvider } from "../../test/harness/double/mock-provider.ts";
import type { Shot } from "./camera.ts";

/** A real service with what there is to see in it. Its model is a script that answers on a port, as a model would. */

export type World = AsyncDisposable & { url: string; shots: readonly Shot[] };
export type Client = ReturnType<typeof createServiceClient>;

export type Ground = AsyncDisposable & { url: string; folder: string; client: (directory: string) => Client };

export type GroundOptions = {
  settings?: object;
  env?: Record<string, string>;
  says?: MockScript;
  /** Fills the data folder before the service begins. */
  seed?: (dataDir: string) => Promise<void>;
};

export const model = "local/coder";

/** The service, with a folder for projects beside its data. */
export const prepare = async ({ settings = {}, env = {}, says = {}, seed }: GroundOptions): Promise<Ground> => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "sortie-pictures-")));
  const provider = await startMockProvider(says);
  const file = join(folder, "config.jsonc");
  const local = { kind: "openai-compatible", name: "A server here", baseURL: provider.baseURL, apiKey: "none" };
  const providers = { local: { ...local, models: ["coder"] } };
  writeFileSync(file, JSON.stringify({ providers, model: "builtin/rules-1", ...settings }));
  const dataDir = join(folder, "data");
  mkdirSync(dataDir);
  await seed?.(dataDir);
  const known = { PATH: process.env["PATH"] ?? "", HOME: folder, SERVICE_CONFIG: file, ...env };
  const service = await createService(loadConfig({ port: 0, dataDir }, known), silent);
  return {
    url: service.url,
    folder,
    client: (directory) => createServiceClient({ baseUrl: service.url, directory }),
    async [Symbol.asyncDispose]() {
      provider.release();
      await service.close();
      await provider.close();
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
};

export const need = <T>({ data, error }: { data?: T; error?: unknown }): NonNullable<T> => {
  if (data === undefined || data === null) throw new Error(JSON.stringify(error));
  return data;
};

export const at = (directory: string): string => `?project=${encodeURIComponent(directory)}`;
