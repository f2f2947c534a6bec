import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Kind } from "./double/forge/double.ts";
import { startGitHost, token } from "./double/git-host.ts";
import { shell } from "./double/hostile-text.ts";
import { type MockRequest, type MockTurn, startMockProvider, textOf } from "./double/mock-provider.ts";
import { temporary } from "./project.ts";

/**
 * A Git host, and a model whose every Task adds a file, and a line to it where a message says "again", unless `reply`
 * says otherwise: for services that are started as processes of their own, too.
 */
export const makeRemoteLab = async (
  prefix: string,
  reply: (request: MockRequest) => MockTurn | undefined = () => undefined,
) => {
  const root = temporary(prefix);
  const provider = await startMockProvider((request) => {
    const said = reply(request);
    if (said !== undefined) return said;
    const last = request.body.messages.at(-1);
    if (request.turn > 0 && last?.role === "user" && textOf(last.content).includes("again"))
      return shell("echo more >> new.txt");
    return request.turn === 0 ? shell("echo new > new.txt") : { text: "Done.\n\nCommit: Add new.txt" };
  });
  const host = await startGitHost(root.path);
  const match = `http://127.0.0.1:${host.port}/*`;
  return {
    root: root.path,
    host,
    /** A data folder, and the environment of a service that may work on the host. */
    prepare(name: string, forge?: Kind, settings: object = {}, limits: object = {}) {
      const folder = join(root.path, name);
      const config = `${folder}.jsonc`;
      const credential = { match, token: "env:HOST_TOKEN", ...(forge === undefined ? {} : { forge }) };
      writeFileSync(
        config,
        JSON.stringify({
          model: "mock/large",
          providers: { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } },
          repositories: { allow: [match], credentials: [credential], fetchSeconds: 20, ...settings },
          limits,
        }),
      );
      const env = { SERVICE_DATA_DIR: folder, SERVICE_CONFIG: config, HOME: root.path, HOST_TOKEN: token };
      return { folder, env };
    },
    async [Symbol.asyncDispose]() {
      await host[Symbol.asyncDispose]();
      await provider.close();
      root[Symbol.dispose]();
    },
  };
};

export type RemoteLab = Awaited<ReturnType<typeof makeRemoteLab>>;
