import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { exit } from "../../../src/cli/terminal/exit.ts";
import { loadConfig } from "../../../src/config/config.ts";
import { configFile } from "../../../src/config/file.ts";
import { errorCodes, ServiceError } from "../../../src/error.ts";
import { silent } from "../../../src/log.ts";
import { knownKinds } from "../../../src/model/provider-kind.ts";
import { createRegistry } from "../../../src/model/registry.ts";
import { board } from "../../../src/protocol/task/board.ts";
import { checkRequest } from "../../../src/protocol/check.ts";
import { eventData } from "../../../src/protocol/event/event.ts";
import { defaultLimits } from "../../../src/protocol/limit.ts";
import { createRoutes } from "../../../src/protocol/route/table.ts";
import * as protocol from "../../../src/protocol/task/status.ts";
import { createRequests } from "../../../src/protocol/task/request.ts";
import { temporary } from "../../harness/project.ts";
import { blocksOf, firstNames, namesIn, page, tableOf } from "./manual.ts";

/** The manuals' tables, compared with the schemas they tell of: what is missing, or no longer there, turns red. */

const manual = page("docs/interface.md");
const settings = page("docs/configuration.md");
const guide = page("docs/guide.md");

const keysOf = (schema: unknown): string[] => (schema instanceof z.ZodObject ? Object.keys(schema.shape) : []);
const bodies = createRequests();

/** Name and default of each row that names a limit. */
const limitsIn = (text: string): Record<string, number> =>
  Object.fromEntries(
    tableOf(text, "Limits").flatMap(([name, value]) =>
      namesIn(name).map((limit) => [limit, Number((value ?? "").replace(/ .*/, "").replaceAll(",", ""))]),
    ),
  );

describe("the tables of the interface", () => {
  const routes = Object.values(createRoutes());
  const same = (heading: string, names: readonly string[]) =>
    expect([heading, firstNames(tableOf(manual, heading)).toSorted()]).toEqual([heading, [...names].toSorted()]);

  test("routes, fields and parameters are those of the schemas", () => {
    same(
      "Routes",
      routes.map(({ method, path }) => `${method} ${path}`),
    );
    same("POST /task", keysOf(bodies.taskCreate));
    same("PATCH /task/{taskID}", keysOf(bodies.taskPatch));
    same("POST /task/{taskID}/message", keysOf(bodies.taskMessage));
    same("POST /task/{taskID}/cancel", keysOf(bodies.taskCancel));
    same("Checks", checkRequest.options.flatMap(keysOf).filter(once));
    same("Status record", ["error", "errorInfo", ...keysOf(protocol.taskStatus)].filter(once));
    same("GET /task/{taskID}/board", keysOf(board));
    const list = keysOf(createRoutes()["task.list"].query);
    for (const name of [...list, "metadata.<key>"]) expect(manual).toContain(`\`${name}\``);
    const own = keysOf(protocol.taskSummary).filter((key) => !keysOf(protocol.taskStatus).includes(key));
    same("GET /tasks", own);
  });

  test("every event with all its data", () => {
    const rows = tableOf(manual, "Durable events").map(([type, data]) => [namesIn(type)[0], namesIn(data)]);
    const data = Object.entries(eventData).map(([type, schema]) => [
      type,
      Object.entries(schema.shape).map(([key, field]) => (isOptional(field) ? `${key}?` : key)),
    ]);
    expect(rows).toEqual(data);
  });

  test("every error code with its status", () => {
    const rows = tableOf(manual, "Errors").flatMap(([status, codes]) =>
      namesIn(codes).map((code) => `${status} ${code}`),
    );
    expect(rows.toSorted()).toEqual(
      errorCodes.map((code) => `${new ServiceError(code, "").status} ${code}`).toSorted(),
    );
  });

  test("limits have their defaults", () => {
    expect(defaultLimits).toMatchObject(limitsIn(manual));
  });
});

const once = <T>(value: T, index: number, all: readonly T[]): boolean => all.indexOf(value) === index;
const isOptional = (field: unknown): boolean => field instanceof z.ZodType && z.object({ field }).safeParse({}).success;

describe("the configuration", () => {
  const source = page("src/config/config.ts") + page("src/config/caller.ts") + page("src/config/bucket.ts");

  test("every limit with its default, and a missing one is told", () => {
    expect(limitsIn(settings)).toEqual(defaultLimits);
    const less = settings.replace(/^\| `jsonKeys`.*\n/m, "");
    expect(limitsIn(less)).not.toEqual(defaultLimits);
  });

  test("every variable that is read, every key, flag and exit code", () => {
    const read = [...source.matchAll(/env\["(\w+)"\]|wholeNumber\("(\w+)"/g)].map(
      (match) => match[1] ?? match[2] ?? "",
    );
    const keys = Object.values(knownKinds).flatMap((kind) => kind.keys);
    const variables = firstNames(tableOf(settings, "Environment"));
    const wanted = [...read, ...keys].filter(once);
    expect(variables.toSorted()).toEqual(wanted.toSorted());

    expect(firstNames(tableOf(settings, "config.jsonc")).toSorted()).toEqual(keysOf(configFile).toSorted());
    const provider = configFile.shape.providers.unwrap().valueType;
    expect(firstNames(tableOf(settings, "Providers")).toSorted()).toEqual(keysOf(provider).toSorted());
    const agent = configFile.shape.agents.unwrap().valueType;
    expect(firstNames(tableOf(settings, "External agents")).toSorted()).toEqual(keysOf(agent).toSorted());
    expect(firstNames(tableOf(settings, "Kinds")).toSorted()).toEqual(provider.shape.kind.options.toSorted());

    const serve = /\.command\("serve"\)[\s\S]*?\.action/.exec(page("src/cli/main.ts"))?.[0] ?? "";
    const flags = [...serve.matchAll(/option\("(--[\w-]+)/g)].map(([, flag]) => flag);
    expect(firstNames(tableOf(settings, "Flags of serve")).map((flag) => flag.split(" ")[0])).toEqual(flags);

    const codes = firstNames(tableOf(settings, "Exit codes")).map(Number);
    expect(codes).toEqual([...Object.values(exit), 69, 70, 75, 78].toSorted((a, b) => a - b));
  });

  test("every example is a configuration that a start accepts", () => {
    const examples = [...blocksOf(settings), ...blocksOf(guide)].filter(({ lang }) => lang === "jsonc");
    expect(examples.length).toBeGreaterThan(4);
    using root = temporary();
    for (const { text } of examples) {
      const file = join(root.path, "config.jsonc");
      writeFileSync(file, text);
      const load = () => loadConfig({ config: file, dataDir: root.path }, { ACME_KEY: "k", OPENAI_API_KEY: "k" });
      const { model, providers, env, failover } = load();
      const rules = () => Promise.reject(new Error("not loaded here"));
      const registry = createRegistry({ model, providers, env, failover, rules, log: silent });
      if (model !== undefined && model.ref !== "none") expect(registry.resolve(undefined)).toBe(model.ref);
      writeFileSync(file, text.replace("{", '{ "modle": "x",'));
      expect(load).toThrow(/modle/);
    }
  });
});
