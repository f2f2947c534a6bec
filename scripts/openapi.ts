/**
 * Writes docs/openapi.json from the table of routes, and the typed client in src/client/gen from that.
 *   node scripts/openapi.ts           writes both
 *   node scripts/openapi.ts --check   fails when one of them is not what it would write
 */
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClient } from "@hey-api/openapi-ts";
import { createDocument } from "../src/http/openapi.ts";
import { createRoutes } from "../src/protocol/route/table.ts";
import { manifestSchema } from "../src/squad/package/manifest.ts";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const documentPath = join(root, "docs/openapi.json");
const schemaPath = join(root, "schemas/squad.json");
const clientPath = join(root, "src/client/gen");

export const writeDocument = async (): Promise<string> => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  return `${JSON.stringify(await createDocument(createRoutes(), version), null, 2)}\n`;
};

/** The generator's own code does not pass our strictest options; ours that uses it does. */
const unchecked = "// @ts-nocheck\n";

const generate = async (input: string, output: string): Promise<void> => {
  await createClient({
    input,
    logs: { level: "silent", file: false },
    output: { path: output, clean: true, module: { extension: ".ts" } },
    plugins: [
      "@hey-api/client-fetch",
      { name: "@hey-api/typescript", enums: false },
      { name: "@hey-api/sdk", operations: { strategy: "single", nesting: "operationId", containerName: "Api" } },
    ],
  });
  for (const file of filesOf(output)) {
    const text = readFileSync(join(output, file), "utf8");
    writeFileSync(join(output, file), unchecked + text);
  }
};

const filesOf = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .sort();

/** Names of what is not as it would be written now. */
export const stale = async (): Promise<string[]> => {
  const document = await writeDocument();
  const folder = mkdtempSync(join(tmpdir(), "sortie-openapi-"));
  try {
    const input = join(folder, "openapi.json");
    writeFileSync(input, document);
    await generate(input, join(folder, "gen"));
    const names = new Set([...filesOf(join(folder, "gen")), ...filesOf(clientPath)]);
    const differs = [...names].filter((name) => read(join(folder, "gen", name)) !== read(join(clientPath, name)));
    return [
      ...(read(documentPath) === document ? [] : ["docs/openapi.json"]),
      ...(read(schemaPath) === manifestSchema() ? [] : ["schemas/squad.json"]),
      ...differs.map((name) => `src/client/gen/${name}`),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};

const read = (path: string): string | undefined => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
};

if (process.argv[1] === fileURLToPath(import.meta.url))
  if (process.argv.includes("--check")) {
    const found = await stale();
    if (found.length > 0) {
      console.error(`Not as the table of routes says: ${found.join(", ")}. Run node scripts/openapi.ts.`);
      process.exitCode = 1;
    }
  } else {
    writeFileSync(documentPath, await writeDocument());
    writeFileSync(schemaPath, manifestSchema());
    await generate(documentPath, clientPath);
  }
