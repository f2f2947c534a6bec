import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { writeFiles } from "../project.ts";

/** A registry that speaks npm's protocol on this machine, with real archives of tiny packages. */

type Pack = { name: string; version: string; scripts?: Record<string, string> };

export type Registry = AsyncDisposable & { url: string; integrity(name: string, version: string): string };

export const startRegistry = async (folder: string, packs: readonly Pack[]): Promise<Registry> => {
  const archives = new Map<string, Buffer>();
  for (const pack of packs) {
    const root = join(folder, `${pack.name}-${pack.version}`);
    mkdirSync(root, { recursive: true });
    writeFiles(join(root, "package"), {
      "package.json": JSON.stringify({ ...pack, license: "MIT", main: "index.js" }),
      "index.js": `module.exports = ${JSON.stringify(pack.version)};\n`,
    });
    execFileSync("tar", ["-czf", "pack.tgz", "package"], { cwd: root });
    archives.set(`/${pack.name}/-/${pack.name}-${pack.version}.tgz`, readFileSync(join(root, "pack.tgz")));
  }
  const integrity = (name: string, version: string) =>
    `sha512-${createHash("sha512")
      .update(archives.get(`/${name}/-/${name}-${version}.tgz`) ?? "")
      .digest("base64")}`;
  const server = createServer((request, response) => {
    const path = decodeURIComponent((request.url ?? "").split("?")[0] ?? "");
    const archive = archives.get(path);
    const found = packs.filter(({ name }) => path === `/${name}`);
    if (archive !== undefined) response.end(archive);
    else if (found.length === 0) response.writeHead(404, { "content-type": "application/json" }).end("{}");
    else
      response.writeHead(200, { "content-type": "application/json" }).end(
        JSON.stringify({
          name: found[0]?.name,
          "dist-tags": { latest: found.at(-1)?.version },
          versions: Object.fromEntries(
            found.map((pack) => {
              const at = `/${pack.name}/-/${pack.name}-${pack.version}.tgz`;
              const install = pack.scripts === undefined ? {} : { hasInstallScript: true };
              return [
                pack.version,
                {
                  ...pack,
                  ...install,
                  license: "MIT",
                  dist: { tarball: `${url}${at.slice(1)}`, integrity: integrity(pack.name, pack.version) },
                },
              ];
            }),
          ),
        }),
      );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return {
    url,
    integrity,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
};
