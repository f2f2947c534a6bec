import { expect, test } from "vitest";
import { ServiceError } from "../../../src/error.ts";
import type { MissionRun } from "../../../src/mission/run.ts";
import { chooseSquad } from "../../../src/mission/tool/choose-squad.ts";
import { produceTool } from "../../../src/mission/tool/produce-squad.ts";
import { defaultLimits } from "../../../src/protocol/limit.ts";
import type { CatalogEntry } from "../../../src/squad/catalog/scope.ts";
import type { ToolContext } from "../../../src/tool/tool.ts";
import { dispatched, missionLog, phase, taskEnded, woken } from "../../harness/mission-log.ts";

/** How far a phase is bound to the squad that was made for it. */

const sessionID = "ses_1";
const digest = "d".repeat(64);
const crew = { id: "crew", version: "1.0.0", digest, scope: "project" as const };
const p = { ...phase("p"), phase: "web/shop" };
const q = { ...phase("q"), phase: "web/shop" };

const entry = (id: string, phases: string[] = [], of = digest) =>
  ({
    squad: {
      id,
      version: "1.0.0",
      pillars: ["code"],
      owns: { domains: [], phases },
      summary: id,
      notFor: [],
      tags: [],
    },
    digest: of,
    scope: phases.length === 0 ? "builtin" : "project",
  }) as unknown as CatalogEntry;

/** The squad `crew` was made for phase p. `now`: its digest in the catalog by now. */
const made = (now = digest) => {
  const log = missionLog();
  log.add(...woken(), { type: "plan.written", data: { sessionID, callID: "p", phases: [p, q] } });
  const produce = (callID: string) => {
    const production = { identity: "squad-sdk" as const, squad: "crew" };
    log.add(taskEnded(log.add(dispatched(callID, { phase: "p", production })).tasks.at(-1)!, "completed"));
    log.add({ type: "squad.reconciled", data: { sessionID, taskID: `task_${callID}`, phase: "p", squad: crew } });
  };
  produce("make");
  const scan = {
    healthy: true,
    complete: true,
    issues: [],
    squads: [entry("crew", ["web/shop"], now), entry("base"), entry("advanced")],
  };
  const run = {
    stream: sessionID,
    state: log.state,
    record: () => Promise.resolve(true),
    inOrder: <T>(work: () => T) => work(),
    signal: new AbortController().signal,
    catalog: { scan: () => Promise.resolve(scan) },
    squad: "base",
    production: true,
    limits: defaultLimits,
    store: { productions: () => Promise.resolve([]) },
    workspaces: { inspect: () => Promise.resolve({ git: undefined, project: "/work/project" }) },
    tasks: { create: () => Promise.reject(new ServiceError("invalid_request", "It would be made.")) },
  } as unknown as MissionRun;
  const done = (callID: string, id: string, outcome: "failed" | "cancelled" | "completed") =>
    log.add(taskEnded(log.add(dispatched(callID, { phase: id, squad: crew })).tasks.at(-1)!, outcome));
  const choose = async (of: typeof p, given: Parameters<typeof chooseSquad>[2] = {}) => {
    const chosen = await chooseSquad(run, of, given);
    return chosen.ok ? [chosen.found.squad.id, chosen.general] : chosen.why;
  };
  const make = async (id: string) => {
    const roster = ["one", "two", "three"].map((name) => ({ name, duty: "A duty." }));
    const given = { phase: id, squad: "other", name: "Other", summary: "Another crew.", roster };
    return (await produceTool(run).run(given, { callID: "call_m" } as ToolContext)).output;
  };
  return { log, run, done, choose, make, produce };
};

test("a made squad that failed at a phase may be left there, for another squad or one that is made; control: before", async () => {
  const { done, choose, make } = made();
  expect(await choose(p, { squad: "base" })).toBe("The squad crew was made for phase p: dispatch to it, got base.");
  expect(await make("p")).toContain("is owned by crew: dispatch to it");
  done("one", "p", "failed");
  expect(await choose(p)).toEqual(["crew", undefined]);
  expect(await choose(p, { squad: "base" })).toEqual(["base", "the squad crew, which was made for it, failed"]);
  expect(await choose(p, { general: "It is one line." })).toEqual(["base", "It is one line."]);
  expect(await make("p")).toContain("It would be made.");
  // Another phase of its trade is still its own, until it has failed at that.
  expect(await choose(q, { squad: "base" })).toBe('The phase "web/shop" is owned by crew: dispatch to that, got base.');
  expect(await make("q")).toContain("is owned by crew: dispatch to it");
  done("two", "q", "failed");
  expect(await choose(q, { squad: "base" })).toEqual(["base", "the squad crew, which was made for it, failed"]);
  expect(await make("q")).toContain("It would be made.");
});

test.each(["cancelled", "completed"] as const)("control: not where its Task was %s", async (outcome) => {
  const { done, choose } = made();
  done("one", "p", outcome);
  expect(await choose(p, { squad: "base" })).toContain("dispatch to it, got base");
});

test("one that was changed is made anew, or does without where none can be made", async () => {
  const { choose, produce, make, run } = made("e".repeat(64));
  expect(await choose(p)).toContain("have a new one made, under another id");
  expect(await make("p")).toContain("It would be made.");
  produce("again");
  produce("third");
  expect(await choose(p)).toEqual(["base", "a squad was tried 3 times for this phase"]);
  expect(await choose(p, { squad: "crew" })).toContain("name another, or none; none can be made");
  expect(await make("p")).toContain("Dispatch it without one");
  const forbidden = made("e".repeat(64));
  Object.assign(forbidden.run, { production: false });
  expect(await forbidden.choose(p)).toEqual(["base", "the operator has forbidden creating squads"]);
  expect(run.production).toBe(true);
});

test("a set that the user chose later holds for it, too; control: a set that has it", async () => {
  const { log, choose } = made();
  log.add({ type: "mission.woken", data: { sessionID, by: "user", squads: ["base"] } });
  expect(await choose(p)).toEqual(["base", expect.stringContaining("the user chose the squads base")]);
  expect(await choose(p, { squad: "crew" })).toContain("The user chose the squads base, got crew");
  log.add({ type: "mission.woken", data: { sessionID, by: "user", squads: ["crew", "base"] } });
  expect(await choose(p)).toEqual(["crew", undefined]);
});
