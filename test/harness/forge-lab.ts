import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { addForge, type ForgeDouble, type Kind } from "./double/forge/double.ts";
import { type GitHost, startGitHost, token } from "./double/git-host.ts";
import { type Lab, makeLab } from "./double/hostile-text.ts";
import { startService, type TestService } from "./service.ts";

/** A real service, git's own server with the repository `acme/app`, and a forge that keeps state on the same port. */
export type ForgeLab = { lab: Lab; host: GitHost; forge: ForgeDouble; service: TestService; url: string };

/** `more`: of the service's `repositories`. `named`: whether its operator says which forge the host is. */
export const openForgeLab = async (
  scope: AsyncDisposableStack,
  kind: Kind,
  more: object = {},
  named = true,
): Promise<ForgeLab> => {
  const lab = scope.use(await makeLab());
  const host = scope.use(await startGitHost(lab.root));
  const forge = addForge(host, kind);
  const match = `http://127.0.0.1:${host.port}/*`;
  const repositories = {
    allow: [match],
    credentials: [{ match, token: "env:HOST_TOKEN", ...(named ? { forge: kind } : {}) }],
    fetchSeconds: 4,
    ...more,
  };
  const config = JSON.parse(readFileSync(lab.config, "utf8")) as object;
  writeFileSync(lab.config, JSON.stringify({ ...config, repositories }));
  const service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config, HOST_TOKEN: token });
  scope.defer(() => service.close());
  host.make("acme/app", { "a.txt": "one\n" });
  return { lab, host, forge, service, url: host.url("acme/app") };
};
