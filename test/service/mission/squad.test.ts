import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tools } from "../../../src/tool/registry.ts";
import { git, readText, until, writeFiles } from "../../harness/project.ts";
import { at, logOf, post, send } from "../../harness/double/hostile-text.ts";
import { textOf } from "../../harness/double/mock-provider.ts";
import {
  author as authorOf,
  dispatch,
  eventsOf,
  finish,
  landedSquad,
  missionOf,
  openStage,
  plan,
  restOf,
  type Say,
  type Script,
  type Stage,
  taskOf,
  turns,
  wake,
} from "../../harness/double/missions.ts";

/** Which squad does a phase, and how one is made: each rule of the dispatch behaviour with its negative. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

const agentFile = (name: string, tools = "read, write") =>
  `---\nname: ${name}\ndescription: The ${name}.\ntools: [${tools}]\n---\n\nYou are the ${name}.\n`;

const squadFiles = (id: string, phases: string[], folder = ".sortie/squads") => ({
  [`${folder}/${id}/squad.json`]: JSON.stringify({
    id,
    version: "1.0.0",
    name: id,
    summary: "A squad.",
    notFor: "Anything else.",
    pillars: ["code"],
    owns: { phases },
    agents: [],
    skills: [],
  }),
  [`${folder}/${id}/README.md`]: `# ${id}\n`,
  [`${folder}/${id}/agents/orchestrator.md`]: agentFile("orchestrator"),
});

const roster = (count = 3) =>
  Array.from({ length: count }, (_, index) => ({ name: `agent-${index}`, duty: "A duty." }));
const produce = (phase: string, squad: string, more: object = {}) => ({
  tool: "produce_squad",
  input: { phase, squad, name: "Crew", summary: "A crew.", roster: roster(), ...more },
});
const author = (more: Record<string, unknown> = {}) => authorOf(roster(), more);
const authors: Say = turns({ calls: [author()] }, { text: "Made." });
const writes: Say = turns(
  { calls: [{ tool: "write", input: { path: "done.txt", content: "x\n" } }] },
  { text: "Wrote it." },
);
/** Productions by what they author, every other Task by writing a file. */
const task =
  (made: Say = authors): Say =>
  (turn, request, newest) =>
    (request.first.startsWith("Make the squad") ? made : writes)(turn, request, newest);

const run = async (
  name: string,
  script: Script,
  body: Record<string, unknown> = {},
  files: Record<string, string> = { "a.txt": "x\n" },
) => {
  stage.play(name, script);
  const directory = stage.project(files);
  const { missionID } = await wake(stage.service.url, directory, { text: `[${name}]`, ...body });
  const mission = await restOf(stage.service.url, directory, missionID);
  return { directory, missionID, mission };
};
/** From what a Task began. */
const begun = async (taskID = "") =>
  (await logOf(stage.service.url, taskID)).flatMap((frame) =>
    frame.type === "workspace.prepared" ? [frame.data] : [],
  );
const facts = async (directory: string, missionID: string) =>
  (await eventsOf(stage.service.url, directory, missionID)).filter(({ taskID }) => taskID === undefined);
/** Who judged what a Task is to land, and how. */
const reviewsOf = async (taskID = ""): Promise<string[]> =>
  (await taskOf(stage.service.url, taskID)).goals.map(({ review }) => `${review.reviewer}: ${review.verdict}`);
const said = (mission: { finished: { summary: string } | null }) => mission.finished?.summary ?? "";
/** Says how the calls before it ended. */
const tell: Say = (_turn, _request, newest) => ({ calls: [finish("blocked", newest.slice(0, 4000))] });

describe("1 and 2: the catalog's word", () => {
  test("documents and questions are done by the squads that are built in for them; none is made for those", async () => {
    let newestOf = "";
    const { mission } = await run(
      "trades",
      {
        mission: turns(
          {
            calls: [
              plan({ id: "g", phase: "docs/guide" }, { id: "r", phase: "research" }, { id: "w", phase: "web/guide" }),
              { tool: "recommend", input: { phase: "g" } },
              produce("g", "guide-crew"),
              produce("r", "research-crew"),
              dispatch("w", "Do it. [trades]"),
            ],
          },
          (_turn, _request, newest) => {
            newestOf = newest;
            return { calls: [dispatch("g", "Do it. [trades]"), dispatch("r", "Do it. [trades]")] };
          },
          { text: "w has no squad." },
          ...Array.from({ length: 3 }, () => ({ calls: [finish("blocked", "w has no squad.")] })),
        ),
        task: task(),
      },
      { allowSquadProduction: true },
    );
    expect(newestOf).toMatch(/"owners": \[\s*\{\s*"id": "docs"/);
    expect(newestOf).toContain('The phase "docs/guide" is owned by docs: dispatch to it.');
    expect(newestOf).toContain('The phase "research" is owned by research: dispatch to it.');
    // Control: a phase of another trade has no owner, and could have a squad made.
    expect(newestOf).toContain('No squad owns the phase "web/guide", and squad production is authorised');
    expect(mission.tasks.map(({ squad }) => squad.id).toSorted()).toEqual(["docs", "research"]);
  });

  test("an owner is dispatched to, fixed to its revision; another squad is refused", async () => {
    const { mission } = await run(
      "owned",
      {
        mission: turns(
          { calls: [plan({ id: "p", phase: "web/landing" }), { tool: "recommend", input: { phase: "p" } }] },
          { calls: [dispatch("p", "Do it. [owned]", { squad: "base" })] },
          (_turn, _request, newest) => {
            expect(newest).toContain('The phase "web/landing" is owned by landing-crew: dispatch to that, got base.');
            return { calls: [dispatch("p", "Do it. [owned]")] };
          },
          { calls: [finish("done")] },
        ),
        task: task(),
      },
      {},
      squadFiles("landing-crew", ["web/landing"]),
    );
    // Control: whoever installs a squad without a reviewer has its work reviewed by nobody.
    expect(await reviewsOf(mission.tasks[0]?.taskID)).toEqual(["null: null"]);
    expect(mission.tasks).toMatchObject([
      { squad: { id: "landing-crew", scope: "project" }, lifecycleStatus: "completed" },
    ]);
    expect(mission.plan).toMatchObject([{ squad: { id: "landing-crew" } }]);
  });

  test("a revision that changed between the choice and the Task is refused; the chosen one goes on to the commit", async () => {
    const directory = stage.project(squadFiles("late-crew", ["web/late"]));
    const { body } = await send(stage.service.url, at("/squads", directory));
    const { squads } = body as unknown as { squads: { id: string; version: string; digest: string }[] };
    const chosen = squads.find(({ id }) => id === "late-crew");
    if (chosen === undefined) throw new Error("Expected the squad in the catalog.");
    const dispatched = (digest: string) =>
      stage.service.tasks.create(
        directory,
        { request: "Do it.", productPillar: "code", promptProfile: "late-crew" },
        undefined,
        {
          mission: { missionID: "m", sessionID: "ses_none", callID: "call_1", phase: "p" },
          production: undefined,
          approve: [],
          expected: { version: chosen.version, digest },
          model: undefined,
          attachments: [],
          handover: undefined,
          // Nobody holds this claim: it is what a Task of another moment would be refused by.
          also: () => ({
            append: { stream: "ses_none", expected: 0, events: [] },
            fence: { stream: "ses_none", epoch: 1 },
          }),
        },
      );
    await expect(dispatched("0".repeat(64))).rejects.toMatchObject({ code: "squad_changed" });
    await expect(dispatched(chosen.digest)).rejects.toMatchObject({ reason: "fence" });
    expect((await send(stage.service.url, at("/tasks", directory))).body).toEqual([]);
  });

  test("from a catalog that is not healthy nothing is recommended, dispatched or made", async () => {
    const { mission } = await run(
      "sick",
      {
        mission: turns(
          { calls: [plan("p")] },
          {
            calls: [
              { tool: "recommend", input: { phase: "p" } },
              dispatch("p", "Do it. [sick]"),
              produce("p", "new-crew"),
            ],
          },
          tell,
        ),
      },
      { allowSquadProduction: true },
      { ".sortie/squads/broken/squad.json": "{" },
    );
    expect(mission.taskCounts.total).toBe(0);
    expect(said(mission).match(/Expected a healthy and complete catalog/g)).toHaveLength(3);
  });

  test("no owner, nothing authorised: the general squad, and no production", async () => {
    const { mission } = await run("plain", {
      mission: turns(
        { calls: [plan("p")] },
        { calls: [produce("p", "new-crew")] },
        (_turn, _request, newest) => {
          expect(newest).toContain("creating squads is not allowed here");
          return { calls: [dispatch("p", "Do it. [plain]")] };
        },
        { calls: [finish("done")] },
      ),
      task: task(),
    });
    expect(mission.tasks).toMatchObject([{ squad: { id: "base" } }]);
    expect(mission.squadProduction).toBe("forbidden");
  });
});

describe("3 to 5: production", () => {
  test("whoever makes one is told what a squad is, what a handbook says, and shown an agent that is taken as it stands", async () => {
    let handbook = "";
    const byExample: Say = (turn, { body }) => {
      if (turn > 0) return { text: "Made." };
      handbook = textOf(body.messages[0]?.content);
      const shown = handbook.slice(handbook.indexOf("as an example:\n"));
      const example = JSON.parse(shown.slice(shown.indexOf("{"), shown.indexOf("\n}") + 2)) as object;
      const others = roster(2).map(({ name, duty }) => ({ name, description: duty, instructions: "You do it." }));
      return { calls: [author({ agents: [example, ...others] })] };
    };
    const { directory, mission } = await run(
      "example",
      {
        mission: turns(
          { calls: [plan({ id: "p", phase: "web/example" })] },
          { calls: [produce("p", "example-crew", { brief: "[example]" })] },
          { calls: [finish("blocked", "Made.")] },
        ),
        task: task(byExample),
      },
      { allowSquadProduction: true },
    );
    expect(mission.tasks).toMatchObject([{ lifecycleStatus: "completed" }]);
    for (const words of ["What a squad is", "An agent named `reviewer`", "What a handbook says", "The form"])
      expect(handbook).toContain(words);
    const made = readText(directory, ".sortie/squads/example-crew/agents/migrator.md");
    expect(made).toMatch(
      /^---\nname: migrator\ndescription: ".+"\ntools: \[read, list, search, write, edit, shell, note\]\n---\n\nYou write one migration/,
    );
    // What the service tells every agent is not repeated.
    for (const rule of ["Do not commit", "interrupted", "Never weaken", "not your user's"])
      expect(handbook.slice(0, handbook.indexOf("\n\nAround you\n"))).not.toContain(rule);
  });

  test("one visible Task makes the squad; it is found again as it was made; a Task of its own is fixed to it", async () => {
    const tools: string[][] = [];
    const { mission, directory, missionID } = await run(
      "make",
      {
        mission: turns(
          { calls: [plan({ id: "p", phase: "web/shop" })] },
          { calls: [dispatch("p", "Do it. [make]")] },
          (_turn, _request, newest) => {
            expect(newest).toContain("have one made with produce_squad first");
            return { calls: [produce("p", "shop-crew", { brief: "[make]" })] };
          },
          (_turn, _request, newest) => {
            expect(newest).toContain("found in the catalog as it was staged");
            return { calls: [dispatch("p", "Do it. [make]")] };
          },
          { calls: [finish("done")] },
        ),
        task: (turn, request, newest) => {
          tools.push((request.body.tools ?? []).map((tool) => tool.function.name));
          return task()(turn, request, newest);
        },
      },
      { allowSquadProduction: true },
    );
    expect(mission).toMatchObject({ finished: { outcome: "done" }, squadProduction: "authorised" });
    const [production, work] = mission.tasks;
    expect(production).toMatchObject({
      lifecycleStatus: "completed",
      squad: { id: "advanced", scope: "builtin" },
      production: { identity: "squad-sdk", phase: "web/shop", squad: "shop-crew" },
      git: { landedCommit: git(directory, "rev-parse", "HEAD~1") },
    });
    expect(work).toMatchObject({
      squad: { id: "shop-crew", version: "1.0.0", scope: "project" },
      lifecycleStatus: "completed",
    });
    expect(work?.production).toBeUndefined();
    expect(existsSync(join(directory, ".sortie/squads/shop-crew/squad.json"))).toBe(true);
    expect(JSON.parse(readText(directory, ".sortie/squads/shop-crew/squad.json"))).toMatchObject({
      owns: { phases: ["web/shop"] },
      agents: ["agent-0", "agent-1", "agent-2", "reviewer"],
    });
    // Nobody was named to judge its work: the service's reviewer is in the package, and did.
    expect(readText(directory, ".sortie/squads/shop-crew/agents/reviewer.md")).toContain(
      "You review work that somebody else did.",
    );
    expect(readText(directory, ".sortie/squads/shop-crew/agents/orchestrator.md")).toContain(
      "delegates: [agent-0, agent-1, agent-2]\n",
    );
    expect(await reviewsOf(work?.taskID)).toEqual(["reviewer: accepted"]);
    // Its package is a commit of its own, with the trailers of any landing, from which the work begins without a
    // snapshot.
    expect(git(directory, "log", "--format=%s", "HEAD~1").split("\n")).toEqual(["Add the squad shop-crew", "first"]);
    expect(git(directory, "log", "-1", "--format=%(trailers)", "HEAD~1").trim().split("\n")).toEqual([
      `Task: ${production?.taskID}`,
      `Mission: ${missionID}`,
      "Phase: p",
      expect.stringMatching(/^Squad: advanced@/),
    ]);
    const [prepared] = await begun(work?.taskID);
    expect(prepared).toMatchObject({ baseCommit: git(directory, "rev-parse", "HEAD~1") });
    expect(prepared).not.toHaveProperty("snapshot");
    expect(git(directory, "status", "--porcelain", "--ignored")).toBe("");
    const own = await facts(directory, missionID);
    const reconciled = own.find(({ type }) => type === "squad.reconciled")?.data["squad"] as { digest: string };
    expect(work?.squad.digest).toBe(reconciled.digest);
    const catalog = (await send(stage.service.url, at("/squads", directory))).body as never as {
      squads: { id: string; digest: string }[];
    };
    expect(catalog.squads.find(({ id }) => id === "shop-crew")?.digest).toBe(reconciled.digest);
    // Only the production has the tool, and nothing that writes files or runs commands.
    const withTool = tools.filter((names) => names.includes("author_squad"));
    expect(withTool).toHaveLength(2);
    for (const names of withTool)
      for (const no of ["write", "edit", "apply_patch", "shell", "git", "delegate"]) expect(names).not.toContain(no);
    expect(tools.some((names) => names.includes("write") && !names.includes("author_squad"))).toBe(true);
  });

  test("on a branch of the Mission's own the package is a commit there: found again, used, and merged with the rest", async () => {
    const { mission, directory, missionID } = await run(
      "branch",
      {
        mission: turns(
          { calls: [plan({ id: "p", phase: "web/shop" })] },
          { calls: [produce("p", "shop-crew", { brief: "[branch]" })] },
          { calls: [{ tool: "recommend", input: { phase: "p" } }, dispatch("p", "Do it. [branch]", { checks: [] })] },
          { text: "Runs." },
          { calls: [finish("done")] },
        ),
        task: task(),
      },
      { allowSquadProduction: true, landing: "branch" },
    );
    expect(mission, said(mission)).toMatchObject({ state: "done", landingBranch: `sortie/${missionID}` });
    const [production, work] = mission.tasks;
    const branch = `sortie/${missionID}`;
    expect(production).toMatchObject({
      lifecycleStatus: "completed",
      git: { landedCommit: git(directory, "rev-parse", `${branch}~1`) },
    });
    expect(work).toMatchObject({ squad: { id: "shop-crew", scope: "project" }, lifecycleStatus: "completed" });
    const reconciled = (await facts(directory, missionID)).find(({ type }) => type === "squad.reconciled");
    expect(reconciled?.data["squad"]).toMatchObject({ digest: work?.squad.digest });
    expect(git(directory, "log", "--format=%s", `main..${branch}`).split("\n")).toEqual([
      expect.any(String),
      "Add the squad shop-crew",
    ]);
    // The user's files and their catalog have nothing of it before the merge.
    expect(git(directory, "status", "--porcelain", "--ignored")).toBe("");
    expect(existsSync(join(directory, ".sortie"))).toBe(false);
    await post(stage.service.url, `/mission/${missionID}/merge`, directory, {});
    await until(
      () => missionOf(stage.service.url, directory, missionID),
      ({ merged }) => merged?.state === "merged",
      30_000,
    );
    expect(JSON.parse(readText(directory, ".sortie/squads/shop-crew/squad.json"))).toMatchObject({ id: "shop-crew" });
  });

  test("a reviewer of its author's stays as it was written, and judges", async () => {
    const judge = { name: "reviewer", description: "Judges.", instructions: "You judge the shop's work." };
    const { mission, directory } = await run(
      "judged",
      {
        mission: turns(
          { calls: [plan({ id: "p", phase: "web/judged" })] },
          { calls: [produce("p", "judged-crew", { brief: "[judged]" })] },
          { calls: [dispatch("p", "Do it. [judged]")] },
          { text: "Runs." },
          { calls: [finish("done")] },
        ),
        task: task(
          turns({ calls: [author({ agents: [...author().input.agents.slice(1), judge] })] }, { text: "Made." }),
        ),
      },
      { allowSquadProduction: true },
    );
    const written = readText(directory, ".sortie/squads/judged-crew/agents/reviewer.md");
    expect(written).toMatch(/\n\nYou judge the shop's work\.\n$/);
    expect(await reviewsOf(mission.tasks.find(({ squad }) => squad.id === "judged-crew")?.taskID)).toEqual([
      "reviewer: accepted",
    ]);
  });

  test.each([
    ["2 agents", { agents: author().input.agents.slice(0, 2) }, /Expected 3 to 9 agents .* got 2/],
    [
      "10 agents",
      { agents: Array.from({ length: 10 }, (_, at) => ({ name: `a-${at}`, description: "d", instructions: "i" })) },
      /Expected 3 to 9 agents .* got 10/,
    ],
    [
      "9 agents of whom none reviews",
      { agents: Array.from({ length: 9 }, (_, at) => ({ name: `a-${at}`, description: "d", instructions: "i" })) },
      /Expected one of 9 agents to be named reviewer/,
    ],
    [
      "4 skills",
      { skills: Array.from({ length: 4 }, (_, at) => ({ name: `s-${at}`, description: "d", text: "t" })) },
      /Expected at most 3 skills, got 4/,
    ],
    [
      "a tool of its own",
      { agents: [{ ...author().input.agents[0], tools: ["deploy"] }, ...author().input.agents.slice(1)] },
      /tools/,
    ],
    [
      "the tool that writes squads",
      { agents: [{ ...author().input.agents[0], tools: ["author_squad"] }, ...author().input.agents.slice(1)] },
      /tools/,
    ],
    [
      "an agent that could delegate to nobody",
      { agents: [{ ...author().input.agents[0], tools: ["read", "delegate"] }, ...author().input.agents.slice(1)] },
      /tools/,
    ],
    [
      "the tools of a server",
      { agents: [{ ...author().input.agents[0], tools: ["mcp__x"] }, ...author().input.agents.slice(1)] },
      /tools/,
    ],
    ["a file more", { files: [{ path: "tools/run.sh", text: "x" }] }, /files/],
    [
      "a runtime",
      { agents: [{ ...author().input.agents[0], runtime: "acp:x" }, ...author().input.agents.slice(1)] },
      /runtime/,
    ],
    ["a version that is none", { version: "one" }, /version/],
  ])(
    "the writer refuses %s; nothing is staged, the Task fails, nothing stands in the project",
    async (what, more, why) => {
      const name = `no${what.replaceAll(/\W/g, "")}`;
      let refusal = "";
      const { mission, directory } = await run(
        name,
        {
          mission: turns({ calls: [plan("p"), produce("p", "bad-crew", { brief: `[${name}]` })] }, { text: "…" }, tell),
          task: turns({ calls: [author(more)] }, (_turn, _request, newest) => {
            refusal = newest;
            return { text: "I could not." };
          }),
        },
        { allowSquadProduction: true },
      );
      expect(refusal).toMatch(why);
      expect(mission.tasks).toMatchObject([{ lifecycleStatus: "failed", errorInfo: { code: "nothing_staged" } }]);
      expect(existsSync(join(directory, ".sortie"))).toBe(false);
    },
  );

  test("the writer gives an agent every tool that a package may name, but for delegating; by default what a builder has", async () => {
    const all = Object.keys(tools).filter((tool) => tool !== "delegate");
    const { mission, directory } = await run(
      "alltools",
      {
        mission: turns(
          { calls: [plan({ id: "p", phase: "all/tools" }), produce("p", "all-crew", { brief: "[alltools]" })] },
          { text: "…" },
          tell,
        ),
        task: turns(
          {
            calls: [
              author({
                agents: [{ ...author().input.agents[0], tools: all }, ...author().input.agents.slice(1)],
              }),
            ],
          },
          { text: "Made." },
        ),
      },
      { allowSquadProduction: true },
    );
    expect(said(mission)).toContain("found in the catalog as it was staged");
    const listed = (agent: string) =>
      /^tools: \[(.*)\]$/m.exec(readText(directory, `.sortie/squads/all-crew/agents/${agent}.md`))?.[1]?.split(", ");
    expect(listed("agent-0")).toEqual(all);
    expect(listed("agent-1")).toEqual(expect.arrayContaining(["apply_patch", "shell", "process", "skill"]));
    expect(listed("orchestrator")).toEqual(expect.arrayContaining(["process", "web_fetch", "delegate", "slice"]));
  });

  test("one made for a trade serves every phase of it", async () => {
    const { mission } = await run(
      "trade",
      {
        mission: turns(
          { calls: [plan({ id: "p", phase: "web/trade" }, { id: "q", phase: "web/trade" })] },
          { calls: [produce("p", "trade-crew", { brief: "[trade]" })] },
          { text: "q waits for the same squad." },
          { calls: [dispatch("p", "Do it. [trade]"), dispatch("q", "Do it, too. [trade]")] },
          { text: "One is there." },
          { calls: [finish()] },
        ),
        task: (turn, request, newest) =>
          request.first.includes("Do it, too")
            ? ([{ calls: [{ tool: "write", input: { path: "q.txt", content: "q\n" } }] }][turn] ?? {
                text: "Wrote it.",
              })
            : task()(turn, request, newest),
      },
      { allowSquadProduction: true },
    );
    expect(mission.plan.map(({ squad, general }) => [squad?.id, general])).toEqual([
      ["trade-crew", null],
      ["trade-crew", null],
    ]);
    expect(mission.tasks.filter(({ squad }) => squad.id === "advanced")).toHaveLength(1);
  });

  test("a roster of 2 or 10, or of 9 without a reviewer, is refused before anything is begun", async () => {
    const { mission } = await run(
      "few",
      {
        mission: turns(
          {
            calls: [
              plan("p"),
              produce("p", "crew", { roster: roster(2) }),
              produce("p", "crew", { roster: roster(10) }),
              produce("p", "crew", { roster: roster(9) }),
            ],
          },
          tell,
        ),
      },
      { allowSquadProduction: true },
    );
    expect(mission.taskCounts.total).toBe(0);
    expect(said(mission).match(/arguments of produce_squad are wrong/g)).toHaveLength(3);
    expect(said(mission)).toContain("Expected one of 9 to be named reviewer");
  });

  test("an explicit set is never widened: only it is dispatched to, and none is made", async () => {
    const { mission } = await run(
      "set",
      {
        mission: turns(
          { calls: [plan("p")] },
          { calls: [produce("p", "crew"), dispatch("p", "Do it. [set]", { squad: "advanced" })] },
          (_turn, _request, newest) => {
            expect(newest).toContain("would extend that list");
            expect(newest).toContain("The user chose the squads base, got advanced");
            return { calls: [dispatch("p", "Do it. [set]")] };
          },
          { calls: [finish("done")] },
        ),
        task: task(),
      },
      { allowSquadProduction: true, squads: ["base"] },
    );
    expect(mission.tasks).toMatchObject([{ squad: { id: "base" } }]);
    expect(mission).toMatchObject({ squads: ["base"], squadProduction: "forbidden" });
  });

  test("an owner outside of an explicit set is not dispatched to, and not recommended as allowed", async () => {
    const { mission } = await run(
      "outside",
      {
        mission: turns(
          { calls: [plan({ id: "p", phase: "web/landing" })] },
          { calls: [{ tool: "recommend", input: { phase: "p" } }] },
          (_turn, _request, newest) => {
            expect(newest).toMatch(/"id": "landing-crew"[\s\S]*"allowed": false/);
            return { calls: [dispatch("p", "Do it. [outside]", { squad: "landing-crew" })] };
          },
          (_turn, _request, newest) => {
            expect(newest).toContain("The user chose the squads base, got landing-crew");
            return { calls: [dispatch("p", "Do it. [outside]")] };
          },
          { calls: [finish("done")] },
        ),
        task: task(),
      },
      { squads: ["base"] },
      squadFiles("landing-crew", ["web/landing"]),
    );
    expect(mission.tasks).toMatchObject([{ squad: { id: "base" } }]);
  });

  test("a failed production is told, and the phase goes on with the general squad", async () => {
    const { mission } = await run(
      "lost",
      {
        mission: turns(
          { calls: [plan("p"), produce("p", "crew", { brief: "[lost]" })] },
          { text: "…" },
          (_turn, _request, newest) => {
            expect(newest).toContain("ended failed");
            return { calls: [dispatch("p", "Do it. [lost]")] };
          },
          { calls: [finish("done", "Without one.")] },
        ),
        task: task(turns({ text: "I will not." })),
      },
      { allowSquadProduction: true },
    );
    expect(mission.tasks).toMatchObject([
      { lifecycleStatus: "failed" },
      { squad: { id: "base" }, lifecycleStatus: "completed" },
    ]);
  });

  test.each([
    ["its digest", (path: string) => writeFiles(path, { "README.md": "# Another\n" }), /expected the digest/],
    ["a tool file smuggled in", (path: string) => writeFiles(path, { "tools/run.sh": "rm\n" }), /broken/],
    [
      "its version",
      (path: string) =>
        writeFiles(path, {
          "squad.json": readFileSync(join(path, "squad.json"), "utf8").replace("1.0.0", "1.0.1"),
        }),
      /expected version 1\.0\.0/,
    ],
    [
      "too few agents",
      (path: string) =>
        writeFiles(path, {
          "squad.json": readFileSync(join(path, "squad.json"), "utf8").replace(/"agent-2"/, '"agent-9"'),
        }),
      /broken/,
    ],
  ])(
    "changed between its install and its reconciliation (%s): not used, with the reason",
    async (what, change, why) => {
      const name = `swap${what.replaceAll(/\W/g, "")}`;
      let directory = "";
      const { mission, missionID } = await (async () => {
        stage.play(name, {
          mission: turns(
            { calls: [plan("p"), produce("p", "swap-crew", { brief: `[${name}]` })] },
            // The Task ends while this waits: its install is tampered with before the next look.
            async () => {
              await landedSquad(directory, "swap-crew");
              change(join(directory, ".sortie/squads/swap-crew"));
              return { text: "…" };
            },
            tell,
          ),
          task: authors,
        });
        directory = stage.project();
        const woken = await wake(stage.service.url, directory, { text: `[${name}]`, allowSquadProduction: true });
        const rest = await restOf(stage.service.url, directory, woken.missionID);
        return { mission: rest, missionID: woken.missionID };
      })();
      const refused = (await facts(directory, missionID)).find(({ type }) => type === "squad.refused");
      expect(String(refused?.data["reason"])).toMatch(why);
      expect(mission.taskCounts.total).toBe(1);
      expect(said(mission)).toContain("cannot be used");
    },
  );

  test("one that was refused is used under no name and for no phase of its kind; made anew under another id it works", async () => {
    let directory = "";
    stage.play("anew", {
      mission: turns(
        {
          calls: [
            plan({ id: "p", phase: "anew" }, { id: "q", phase: "anew" }),
            produce("p", "old-crew", { brief: "[anew]" }),
          ],
        },
        async () => {
          await landedSquad(directory, "old-crew");
          writeFiles(join(directory, ".sortie/squads/old-crew"), { "README.md": "# Another\n" });
          return { text: "…" };
        },
        {
          calls: [
            { tool: "recommend", input: { phase: "q" } },
            dispatch("p", "Do it. [anew]", { squad: "old-crew" }),
            dispatch("q", "Do it. [anew]", { squad: "old-crew", general: "Whatever." }),
            dispatch("q", "Do it. [anew]"),
            produce("p", "new-crew", { brief: "[anew]" }),
          ],
        },
        (_turn, _request, newest) => {
          expect(newest).toMatch(/"id": "old-crew"[\s\S]*"allowed": false/);
          expect(newest.match(/The squad old-crew is not as it was made for this Mission/g)).toHaveLength(2);
          expect(newest).toContain("have one made with produce_squad first");
          return { text: "…" };
        },
        { calls: [dispatch("p", "Do it. [anew]")] },
        { text: "Runs." },
        { calls: [finish("blocked")] },
      ),
      task: task(),
    });
    directory = stage.project();
    const { missionID } = await wake(stage.service.url, directory, { text: "[anew]", allowSquadProduction: true });
    const mission = await restOf(stage.service.url, directory, missionID);
    expect(mission.plan).toMatchObject([{ squad: { id: "new-crew" }, state: "done" }, { squad: null }]);
  });

  test("changed after its reconciliation: the dispatch is refused", async () => {
    let directory = "";
    stage.play("late", {
      mission: turns(
        { calls: [plan("p"), produce("p", "late-crew", { brief: "[late]" })] },
        { text: "…" },
        () => {
          writeFiles(join(directory, ".sortie/squads/late-crew"), { "README.md": "# Another\n" });
          return { calls: [dispatch("p", "Do it. [late]")] };
        },
        tell,
      ),
      task: task(),
    });
    directory = stage.project();
    const { missionID } = await wake(stage.service.url, directory, { text: "[late]", allowSquadProduction: true });
    const mission = await restOf(stage.service.url, directory, missionID);
    expect(said(mission)).toContain("It is not used");
    expect(mission.taskCounts.total).toBe(1);
  });

  test("one at a time for a project and phase, whichever Mission asks", async () => {
    stage.play("twin", {
      mission: turns(
        { calls: [plan({ id: "p", phase: "twin" }), produce("p", "twin-crew", { brief: "[twin]" })] },
        { text: "…" },
        tell,
      ),
      task: turns({ calls: [author()], latencyMs: 700 }, { text: "Made." }),
    });
    stage.play("other", {
      mission: turns(
        { calls: [plan({ id: "q", phase: "twin" }), produce("q", "other-crew", { brief: "[twin]" })] },
        tell,
      ),
    });
    const directory = stage.project();
    const { url } = stage.service;
    const one = await wake(url, directory, { text: "[twin]", allowSquadProduction: true });
    const { tasks } = await until(
      () => missionOf(url, directory, one.missionID),
      ({ taskCounts }) => taskCounts.total === 1,
    );
    const two = await wake(url, directory, { text: "[other]", allowSquadProduction: true });
    const second = await restOf(url, directory, two.missionID);
    expect(said(second)).toContain(`${tasks[0]?.taskID} makes a squad for "twin" in this project already`);
    await restOf(url, directory, one.missionID);
    expect(await taskOf(url, tasks[0]?.taskID ?? "")).toMatchObject({ lifecycleStatus: "completed" });
  });

  test("of eight Missions that want it at the same time one has it made", async () => {
    stage.play("race", {
      mission: turns(
        { calls: [plan({ id: "p", phase: "race" })], hold: true },
        { calls: [produce("p", "race-crew", { brief: "[race]" })] },
        (_turn, _request, newest) => ({ calls: [finish("waiting", newest)] }),
        { calls: [finish("blocked", "Heard.")] },
      ),
      task: turns({ calls: [author()], latencyMs: 700 }, { text: "Made." }),
    });
    const directory = stage.project();
    const { url } = stage.service;
    const ids = Array.from({ length: 8 }, (_, at) => `race-${at}`);
    await Promise.all(
      ids.map((missionID) => wake(url, directory, { missionID, text: "[race]", allowSquadProduction: true })),
    );
    await until(
      () => Promise.resolve(stage.provider.held()),
      (held) => held === ids.length,
    );
    stage.provider.release();
    const all = await Promise.all(ids.map((missionID) => restOf(url, directory, missionID)));
    expect(all.flatMap(({ tasks }) => tasks)).toMatchObject([
      { production: { squad: "race-crew" }, lifecycleStatus: "completed" },
    ]);
    const told = all.filter(({ finished }) => /makes a squad for "race"|begins a squad/.test(finished?.summary ?? ""));
    expect(told).toHaveLength(7);
  });

  test("an ordinary Task of the squad that makes squads has not the tool", async () => {
    const seen: string[] = [];
    stage.play("ordinary", {
      mission: () => ({ text: "" }),
      task: (_turn, request) => {
        seen.push(...(request.body.tools ?? []).map((tool) => tool.function.name));
        return { text: "Done." };
      },
    });
    const directory = stage.project();
    const { body } = await send(stage.service.url, at("/task", directory), {
      method: "POST",
      body: { request: "Make the squad. [ordinary]", productPillar: "code", promptProfile: "advanced" },
    });
    await until(
      () => taskOf(stage.service.url, String(body["taskID"])),
      ({ status }) => status === "inactive",
    );
    expect(seen).toContain("write");
    expect(seen).not.toContain("author_squad");
  });
});

describe("the operator's word", () => {
  test("off forbids always; on allows unless the wake forbids it", async () => {
    for (const [setting, allow, expected] of [
      ["0", true, "forbidden"],
      ["1", undefined, "authorised"],
      ["1", false, "forbidden"],
    ] as const) {
      await using other = await openStage({ SERVICE_ALLOW_SQUAD_PRODUCTION: setting });
      other.play("word", { mission: () => ({ calls: [finish("blocked", "x")] }) });
      const directory = other.project();
      const { missionID } = await wake(other.service.url, directory, {
        text: "[word]",
        ...(allow === undefined ? {} : { allowSquadProduction: allow }),
      });
      expect([setting, allow, (await restOf(other.service.url, directory, missionID)).squadProduction]).toEqual([
        setting,
        allow,
        expected,
      ]);
    }
  });
});
