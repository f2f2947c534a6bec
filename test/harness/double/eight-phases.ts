import { missionOf, isMission, openStage, type Say, type Stage, wake } from "./missions.ts";
import { isDescription, type MockMessage, type MockRequest, textOf } from "./mock-provider.ts";
import { until } from "../project.ts";

/**
 * A Mission of eight phases as one is led that knows its work, over the real wire: it looks, plans, judges what Tasks
 * did, tries a failed phase again, hears a change of direction, asks once, verifies and reports. Its Tasks read, write
 * and run. What is measured is what each model was sent, in bytes.
 */

/** What the user says, word for word: none of it may be lost. */
export const goal =
  "[eight] Turn this pile of scripts into a small library for keeping a book of recipes: a store that survives a torn write, a parser for our text format, an API in front of both, a command line, full-text search, an import of the old files, documents, and a release that can be installed. Keep to Node's own modules. Nothing may write outside the folder that it is given. The old format has to be readable for ever; we have eleven years of files in it.";
export const direction =
  "[direction] One change: quantities are never rounded. A third stays 1/3, in the store, the API and whatever is printed. And the command line is called `cook`, not `recipes`.";
export const answer =
  "[answer] The old files are in latin-1, all of them; what is not readable as such is kept beside, never dropped.";

type Phase = { id: string; kind: string; title: string; after: string[] };
const phases: Phase[] = [
  { id: "storage", kind: "code/implementation", title: "A store that survives a torn write", after: [] },
  { id: "parser", kind: "code/implementation", title: "A parser for the text format", after: [] },
  { id: "api", kind: "code/implementation", title: "An API over store and parser", after: ["storage", "parser"] },
  { id: "search", kind: "code/implementation", title: "Full-text search", after: ["api"] },
  { id: "import", kind: "code/implementation", title: "Import of the old files", after: ["search"] },
  { id: "cli", kind: "code/implementation", title: "The command line", after: ["import"] },
  { id: "guide", kind: "docs/guide", title: "Documents for users and maintainers", after: ["cli"] },
  { id: "release", kind: "code/release", title: "A release that can be installed", after: ["guide"] },
];

/** So many characters of plain prose that says something else each time. */
const prose = (about: string, characters: number): string => {
  let text = "";
  for (let line = 1; text.length < characters; line += 1)
    text += `${about}, point ${line}: what is decided here holds for every caller, and is shown by a test that fails without it. `;
  return text.slice(0, characters);
};
const code = (name: string, characters: number): string => {
  let text = "";
  for (let line = 1; text.length < characters; line += 1)
    text += `export const ${name.replaceAll(/\W/g, "_")}_${line} = (value) => value === undefined ? ${line} : [value, ${line}];\n`;
  return text;
};

export const files = (): Record<string, string> => ({
  "README.md": prose("The recipes", 3000),
  "package.json": JSON.stringify({ name: "recipes", type: "module", scripts: { test: "node --test" } }, null, 2),
  ...Object.fromEntries(
    ["book", "format", "old", "print", "units", "paths"].map((name) => [`src/${name}.js`, code(name, 3500)]),
  ),
});

const call = (tool: string, input: object) => ({ tool, input });
const planned = call("plan", {
  phases: phases.map(({ id, kind, title, after }) => ({
    id,
    title,
    phase: kind,
    after,
    objective: prose(`Objective of ${id}`, 380),
    acceptance: [`node src/${id}.js exits with 0`, prose(`What can be seen of ${id}`, 160)],
  })),
});
const brief = (id: string, attempt: number) =>
  call("dispatch", {
    phase: id,
    request: `[eight] Phase ${id}, try ${attempt}. ${prose(`The brief of ${id}`, 1500)}`,
    checks: [{ kind: "command", name: id, run: `node src/${id}.js` }],
  });

/** How the Mission's agent goes on, by what it was told since its last reply. */
const lead = (hold: { first: () => void }): Say => {
  let looks = 0;
  let ended = 0;
  const tried = new Map<string, number>();
  const pending: ReturnType<typeof call>[] = [];
  const dispatchAll = (ids: readonly string[]) =>
    ids.map((id) => {
      tried.set(id, (tried.get(id) ?? 0) + 1);
      return brief(id, tried.get(id) ?? 1);
    });
  const go = () => ({ text: "What is ready is under way.", calls: pending.splice(0) });
  return (_turn, request, _newest) => {
    const news = latest(request);
    looks += 1;
    switch (looks) {
      case 1:
        return { calls: [call("list", { path: "." }), call("search", { pattern: "export const book_1" })] };
      case 2:
        return { calls: ["src/book.js", "src/format.js", "README.md"].map((path) => call("read", { path })) };
      case 3:
        return { calls: [planned, ...["storage", "guide", "release"].map((phase) => call("recommend", { phase }))] };
      case 4:
        return {
          calls: [
            call("remember", { text: prose("What I decided", 900) }),
            call("ask", { question: "In which encoding are the old files?" }),
          ],
        };
      case 5:
        return { text: "Storage and parser go first.", calls: dispatchAll(["storage", "parser"]) };
      default:
    }
    // A call of its own before came back: what was looked up leads to what was to be done.
    if (pending.length > 0) return go();
    if (news.includes("[direction]"))
      return {
        calls: [
          call("phase", { id: "cli", title: "The command line `cook`", objective: prose("Objective of cook", 300) }),
          call("remember", { text: prose("What I decided, and quantities stay exact", 1000) }),
        ],
      };
    const end = /Task (task_\w+) of phase (\w+), .* ended (\w+)/.exec(news);
    const ready = (/^Ready: ([^.]*)\./m.exec(news)?.[1] ?? "").split(", ").filter((id) => id !== "");
    if (end === null) {
      if (/passed/i.test(news) && ended >= phases.length + 1)
        return { calls: [call("finish", { outcome: "done", summary: prose("All eight phases", 1200) })] };
      return { text: "Noted; the plan goes on with what runs." };
    }
    const [, task = "", phase = "", outcome] = end;
    ended += 1;
    hold.first();
    if (outcome === "failed") {
      pending.push(...dispatchAll([phase]));
      return { calls: [call("task_evidence", { task, part: "checks" })] };
    }
    if (news.includes("Every phase of the plan is done"))
      return { calls: [call("verify", { checks: phases.map(({ id }) => `node src/${id}.js`) })] };
    pending.push(...dispatchAll(ready));
    // Every other result is looked at more closely, where the change did not come with it.
    if (ended % 2 === 0 && !news.includes("diff --git"))
      return { calls: [call("task_evidence", { task, part: "diff", file: `src/${phase}.js` })] };
    return pending.length > 0 ? go() : { text: "Waiting for the other one." };
  };
};

/** What stands after its own last words: messages that came together are read together. */
const latest = ({ body: { messages } }: MockRequest): string => {
  const summary = messages.findLastIndex(isState);
  const own = messages.findLastIndex(({ role }) => role === "assistant");
  return messages
    .slice(Math.max(summary, own) + 1)
    .map(({ content }) => textOf(content))
    .join("\n");
};

/** What stands in the place of the turns before. */
export const isState = ({ role, content }: MockMessage): boolean =>
  role === "user" && textOf(content).startsWith("Note from the service: earlier turns");

/** A Task's agent: looks, reads, writes what its check wants, runs it, reports. Search fails at its first try. */
const work = (hold: { firstEnded: Promise<void> }): Say => {
  return async (turn, request) => {
    const [, id = "", attempt = ""] = /Phase (\w+), try (\d)/.exec(request.first) ?? [];
    const fails = id === "search" && attempt === "1";
    switch (turn) {
      case 0:
        return { calls: ["src/old.js", "src/units.js"].map((path) => call("read", { path })) };
      case 1:
        return {
          calls: [
            call("write", { path: `src/${id}.js`, content: `${code(id, 2500)}${fails ? "process.exit(1);\n" : ""}` }),
          ],
        };
      case 2:
        return { calls: [call("shell", { command: `node src/${id}.js; git status --short` })] };
      default:
        // The ends of the two that run together come one after the other.
        if (id === "parser") await hold.firstEnded;
        return { text: prose(`Report of ${id}`, 900) };
    }
  };
};

export type Role = "mission" | "tasks" | "reviews" | "commits";
export type Measured = {
  /** Bytes of input and number of requests by role. */
  roles: Record<Role, { bytes: number; requests: number }>;
  /** Bytes of the Mission's agent's input by part. */
  parts: Record<string, number>;
  /** Every request of the Mission's agent. */
  requests: MockRequest[];
  /** Bytes that it would have read had nothing been taken out of its conversation. */
  whole: number;
  /** Share of the Mission's agent in all input. */
  share: number;
};

export const playEight = async (stage: Stage): Promise<Measured> => {
  const gate = Promise.withResolvers<void>();
  const roles: Measured["roles"] = {
    mission: { bytes: 0, requests: 0 },
    tasks: { bytes: 0, requests: 0 },
    reviews: { bytes: 0, requests: 0 },
    commits: { bytes: 0, requests: 0 },
  };
  const parts: Measured["parts"] = {};
  const requests: MockRequest[] = [];
  const said: MockMessage[] = [];
  let whole = 0;
  stage.heard = (request) => {
    const { messages, tools } = request.body;
    const role = roles[roleOf(request)];
    role.requests += 1;
    role.bytes += bytesOf(messages) + bytesOf(tools ?? []);
    if (!isMission(request)) return;
    said.push(...newIn(messages, requests.at(-1)?.body.messages ?? []));
    whole += bytesOf(said) + bytesOf(tools ?? []);
    requests.push(request);
    const add = (part: string, bytes: number) => {
      parts[part] = (parts[part] ?? 0) + bytes;
    };
    add("tools", bytesOf(tools ?? []));
    for (const [at, message] of messages.entries())
      for (const [part, bytes] of partsOf(messages, at, message)) add(part, bytes);
  };
  stage.play("eight", { mission: lead({ first: gate.resolve }), task: work({ firstEnded: gate.promise }) });
  const directory = stage.project(files());
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: goal, missionID: "eight" });
  const at = (path: string) => `${url}/mission/${missionID}${path}?directory=${encodeURIComponent(directory)}`;
  const status = () => missionOf(url, directory, missionID);
  const asked = await until(status, ({ pending }) => pending.length > 0);
  const reply = await fetch(at(`/pending/${asked.pending[0]?.id}`), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ answer }),
  });
  if (!reply.ok) throw new Error(`answer: ${reply.status} ${await reply.text()}`);
  await until(status, ({ plan }) => plan.some(({ id, state }) => id === "api" && state === "running"), 60_000);
  await wake(url, directory, { text: direction, missionID });
  const end = await until(status, ({ state }) => state === "done" || state === "stalled", 120_000);
  if (end.state !== "done") throw new Error(`The Mission came to ${end.state}: ${end.stateReason}`);
  const all = Object.values(roles).reduce((sum, { bytes }) => sum + bytes, 0);
  return { roles, parts, requests, whole, share: roles.mission.bytes / all };
};

/** The messages of a request that the one before did not have: after a renewal, those after the state. */
const newIn = (messages: readonly MockMessage[], before: readonly MockMessage[]): MockMessage[] => {
  const state = messages.findLastIndex(isState);
  const renewed = JSON.stringify(messages[state]) !== JSON.stringify(before.findLast(isState));
  return messages.slice(renewed ? state + 1 : before.length);
};

export const openEight = (): Promise<Stage> => openStage({}, { limits: { checkRounds: 1 } });

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

const roleOf = (request: MockRequest): Role => {
  if (isMission(request)) return "mission";
  if (isDescription(request)) return "commits";
  return request.body.tools?.some(({ function: { name } }) => name === "verdict") === true ? "reviews" : "tasks";
};

/** A message's bytes by what it is: whose words, which tool's arguments or results. */
const partsOf = (all: readonly MockMessage[], at: number, message: MockMessage): [string, number][] => {
  const whole = bytesOf(message);
  switch (message.role) {
    case "system":
      return [["system prompt", whole]];
    case "user": {
      const text = textOf(message.content);
      if (isState(message)) return [["state between wakes", whole]];
      return [[text.startsWith("[") ? "the user's words" : "what woke it", whole]];
    }
    case "assistant": {
      const calls = message.tool_calls ?? [];
      const inputs = calls.map(({ function: { name, arguments: input } }): [string, number] => [
        `arguments of ${name}`,
        bytesOf(input),
      ]);
      return [["its own words", whole - inputs.reduce((sum, [, bytes]) => sum + bytes, 0)], ...inputs];
    }
    default: {
      const named = all
        .slice(0, at)
        .flatMap(({ tool_calls: calls = [] }) => calls)
        .findLast(({ id }) => id === message.tool_call_id);
      return [[`results of ${named?.function.name ?? "a call"}`, whole]];
    }
  }
};

/** The figures as lines, the largest part first. */
export const told = ({ roles, parts, share, whole }: Measured): string => {
  const line = (name: string, bytes: number, more = "") =>
    `${name.padEnd(26)}${String(bytes).padStart(9)} bytes ${String(Math.round(bytes / 4)).padStart(7)} tokens${more}`;
  return [
    ...Object.entries(roles).map(([name, { bytes, requests }]) => line(name, bytes, `  ${requests} requests`)),
    `share of the Mission's agent: ${percent(share)}`,
    line(
      "with all turns",
      whole,
      `  share ${percent(whole / (whole + roles.mission.bytes / share - roles.mission.bytes))}`,
    ),
    ...Object.entries(parts)
      .toSorted(([, a], [, b]) => b - a)
      .map(([name, bytes]) => line(`  ${name}`, bytes)),
  ].join("\n");
};

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
