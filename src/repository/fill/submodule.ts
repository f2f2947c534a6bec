import { ServiceError } from "../../error.ts";
import { decodePath } from "../../workspace/file/path.ts";
import type { Git } from "../../workspace/git/git.ts";
import { type Address, parseAddress, urlOf } from "../address.ts";

/**
 * Reads the addresses of a commit's submodules from its `.gitmodules`. They are the text of others, and must be judged.
 */

/** The addresses of the submodules, by their paths. */
export const submodulesIn = async (git: Git, commit: string): Promise<Map<string, string>> => {
  const args = ["config", `--blob=${commit}:.gitmodules`, "-z", "--get-regexp", "^submodule\\..*\\.(path|url)$"];
  const { stdout, exitCode } = await git.run(args, { ok: [0, 1, 128] });
  const found = new Map<string, { path?: string; url?: string }>();
  for (const record of exitCode === 0 ? decodePath(stdout).split("\0") : []) {
    const [key = "", ...value] = record.split("\n");
    const [, name, field] = /^submodule\.(.*)\.(path|url)$/s.exec(key) ?? [];
    if (name === undefined || field === undefined) continue;
    found.set(name, { ...found.get(name), [field]: value.join("\n") });
  }
  return new Map([...found.values()].flatMap(({ path, url }) => (path && url ? [[path, url] as const] : [])));
};

/**
 * The address of a submodule's URL in the repository at `of`: `./` and `../` are relative to that, as in git. Throws
 * `repository_not_allowed`.
 */
export const submoduleAddress = (of: Address, url: string): Address => {
  if (!/^\.\.?\//.test(url)) return parseAddress(url);
  const path = of.path.split("/");
  let rest = url;
  for (;;)
    if (rest.startsWith("./")) rest = rest.slice(2);
    else if (rest.startsWith("../")) {
      if (path.length <= 1)
        throw new ServiceError(
          "repository_not_allowed",
          `Expected an address on ${of.host}, got ${JSON.stringify(url.slice(0, 200))}.`,
        );
      path.pop();
      rest = rest.slice(3);
    } else break;
  return parseAddress(urlOf({ ...of, path: `${path.join("/")}/${rest}` }));
};

/** Whether two repositories are on one host, with the same scheme and port. */
export const onSameHost = (one: Address, other: Address): boolean =>
  one.scheme === other.scheme && one.host === other.host && one.port === other.port;
