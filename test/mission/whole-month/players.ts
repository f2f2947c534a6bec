import { author, isMission } from "../../harness/double/missions.ts";
import {
  type MockMessage,
  type MockRequest,
  type MockTurn,
  textOf,
  verdictOn,
  wholeAccepted,
} from "../../harness/double/mock-provider.ts";

/**
 * The models of a month: a Mission's agent, those of its Tasks, and whoever judges the whole. Each says what its
 * conversation leads to, so that a request that is repeated after a death is answered as before.
 */

export type How =
  | "write"
  | "wrong"
  | "mend"
  | "fail"
  | "give-up"
  | "ask-mission"
  | "ask-pass"
  | "ask-silent"
  | "ask-direct"
  | "background"
  | "slow";

export type Phase = { id: string; how: How; after?: string[]; squad?: true };

/** One Mission: what its user says, and how its agent and its Tasks take it. */
export type Story = {
  /** Its id, too; in brackets in all that is said of it. */
  name: string;
  wake: Record<string, unknown>;
  /** What is wanted at first, and after each change of direction. */
  directions: Phase[][];
  /** Its agent has checks of its own run before it says that it is done. */
  verifies?: true;
  /** Stops without a word at the end, until somebody asks. */
  silent?: true;
  /** Would rather look again in ten hours first. */
  waits?: true;
  /** Whoever judges the whole finds something the first time. */
  rejected?: true;
};

/** What the players wait for, and what they saw. */
export type Play = {
  script: (request: MockRequest) => MockTurn | Promise<MockTurn>;
  judges: (request: MockRequest) => MockTurn | undefined;
  /** Tasks that wait for `release`, as story and phase. */
  held: Set<string>;
  release(held: string): void;
  /** A person has answered this ask of a Task, of which its Mission's agent says nothing before. */
  answered(askID: string): void;
};

type Call = { tool: string; input: unknown };
type Result = { tool: string; input: Record<string, unknown>; output: string };

/** Calls with their results, in order. */
const resultsIn = (messages: readonly MockMessage[]): Result[] => {
  const calls = new Map<string, Omit<Result, "output">>();
  return messages.flatMap((message) => {
    for (const { id, function: called } of message.tool_calls ?? [])
      calls.set(id, { tool: called.name, input: JSON.parse(called.arguments || "{}") as Record<string, unknown> });
    const call = message.role === "tool" ? calls.get(message.tool_call_id ?? "") : undefined;
    return call === undefined ? [] : [{ ...call, output: textOf(message.content) }];
  });
};

const freshIn = (messages: readonly MockMessage[]): MockMessage[] =>
  messages
    .slice(messages.findLastIndex(({ role }) => role === "assistant") + 1)
    .filter(({ role }) => role !== "system");

const userText = (messages: readonly MockMessage[]): string =>
  messages
    .filter(({ role }) => role === "user")
    .map(({ content }) => textOf(content))
    .join("\n");

type Standing = {
  phases: {
    id: string;
    state: string;
    attempts: number;
    taskID?: string;
    squad?: string;
    productionTaskID?: string;
  }[];
  running: string[];
};

/** As its newest calls showed it. */
const standingIn = (messages: readonly MockMessage[]): Standing | undefined => {
  const newest = messages.slice(
    Math.max(
      0,
      messages.findLastIndex(({ role }) => role === "assistant"),
    ),
  );
  const shown = resultsIn(newest).findLast(({ tool }) => tool === "task_status")?.output;
  try {
    return shown === undefined ? undefined : (JSON.parse(shown.split("\n\n[")[0] ?? "") as Standing);
  } catch {
    return undefined;
  }
};

export const createPlay = (stories: ReadonlyMap<string, Story>): Play => {
  const held = new Set<string>();
  const waiting = new Map<string, PromiseWithResolvers<void>>();
  const answered = new Set<string>();
  const mends = new Map<string, number>();
  const slept = new Set<string>();
  const judged = new Map<string, string>();

  const storyOf = (text: string): Story | undefined => stories.get(/\[(m\d+)\]/.exec(text)?.[1] ?? "");

  /** One that is repeated may get another number, which is no harm. */
  const mend = ({ name }: Story): MockTurn => {
    const number = (mends.get(name) ?? 0) + 1;
    mends.set(name, number);
    return { calls: [phaseCall({ id: `mend-${number}`, how: "mend" }, name)] };
  };

  const lead = async (story: Story, request: MockRequest): Promise<MockTurn> => {
    const { messages } = request.body;
    const fresh = freshIn(messages);
    const text = fresh.map(({ content }) => textOf(content)).join("\n");
    const users = userText(messages);
    const at = Math.max(0, ...[...users.matchAll(/direction (\d+)/g)].map(([, number]) => Number(number)));
    const wanted = story.directions[Math.min(at, story.directions.length - 1)] ?? [];
    if (text.includes("The time that you set is over")) slept.add(story.name);

    const asked = [...text.matchAll(/Task (task_\w+) of phase (\S+), "[^"\n]*", asks \((ask_\w+)\), and waits/g)];
    const answers: Call[] = [];
    for (const [, task = "", phase = "", ask = ""] of asked) {
      const how = wanted.find(({ id }) => id === phase)?.how;
      if (how === "ask-mission")
        answers.push({ tool: "task_answer", input: { task, ask, answer: `Blue, as ${story.name} wants it.` } });
      if (how === "ask-pass") answers.push({ tool: "task_answer", input: { task, ask, pass: true } });
      if (how === "ask-direct")
        for (let tries = 0; tries < 200 && !answered.has(ask); tries += 1)
          await new Promise((resolve) => setTimeout(resolve, 50));
    }
    if (answers.length > 0) return { calls: answers };
    if (text.includes("The plan was not approved: ")) {
      const times = users.split("The plan was not approved: ").length;
      const id = wanted.at(-1)?.id ?? "";
      return { calls: [{ tool: "phase", input: { id, objective: `It is there, and better in way ${times}.` } }] };
    }
    if (text.includes(redWords) || text.includes("and rejects it:")) return mend(story);
    if (/before anything (?:more )?is dispatched|did not approve the plan as it stands/.test(text))
      return { text: "The user is asked first." };
    const standing = standingIn(messages);
    if (standing === undefined) return { calls: [{ tool: "task_status", input: {} }] };
    return decide(story, wanted, standing, messages);
  };

  const decide = (
    { name, wake, verifies, silent, waits, directions }: Story,
    wanted: readonly Phase[],
    { phases, running }: Standing,
    messages: readonly MockMessage[],
  ): MockTurn => {
    if (phases.length === 0)
      return { calls: [{ tool: "plan", input: { phases: wanted.map((phase) => phaseCall(phase, name).input) } }] };
    const change = [
      ...phases
        .filter(({ id, state }) => !id.startsWith("mend") && state !== "done" && !wanted.some((one) => one.id === id))
        .flatMap(({ id, state, taskID }): Call[] => [
          ...(state === "running"
            ? [{ tool: "task_cancel", input: { task: taskID, reason: "Not wanted any more." } }]
            : []),
          { tool: "phase", input: { id, drop: true } },
        ]),
      ...wanted.filter(({ id }) => !phases.some((one) => one.id === id)).map((phase) => phaseCall(phase, name)),
    ];
    if (change.length > 0) return { calls: change };
    const next = phases
      .filter(({ state, attempts }) => state === "ready" || (/failed|cancelled/.test(state) && attempts < 3))
      .map(({ id, attempts, squad, productionTaskID }): Call => {
        const { how = "mend", squad: made } = wanted.find((one) => one.id === id) ?? {};
        if (made && squad === undefined && productionTaskID === undefined) return produce(id, name);
        const tried = attempts + 1;
        return {
          tool: "dispatch",
          input: {
            phase: id,
            request: `[${name}] do ${id} as ${how}, try ${tried}. Write ${name}-${id}.txt.`,
            checks: how === "give-up" && tried === 1 ? ["false"] : [`test -f ${fileOf(name, id, how)}`],
            ...(wake["allowSquadProduction"] === true && !made ? { general: "One file is written." } : {}),
          },
        };
      });
    if (next.length > 0) return { calls: next };
    if (running.length > 0 || phases.some(({ state }) => state === "producing")) return { text: "It runs." };
    if (waits && !slept.has(name))
      return { calls: [finish("waiting", "The others have to decide first.", { wakeInMinutes: 600 })] };
    if (phases.some(({ state }) => state !== "done")) return { calls: [finish("blocked", "Something is left.")] };
    if (silent && !userText(messages).includes(`direction ${directions.length - 1}`)) return { text: "Hm." };
    const since = messages.slice(messages.findLastIndex(({ role }) => role === "user") + 1);
    if (verifies && !resultsIn(since).some(({ tool }) => tool === "verify"))
      return {
        calls: [
          {
            tool: "verify",
            input: { checks: phases.map(({ id }) => `test -f ${name}-${id}.txt || test -f ${name}-whole.txt`) },
          },
        ],
      };
    return { calls: [finish("done", "All of it is there.")] };
  };

  const work = async (story: Story, request: MockRequest): Promise<MockTurn> => {
    const { name } = story;
    const [, id = "", how = "write", tried = "1"] = /do (\S+) as (\S+), try (\d+)\./.exec(request.first) ?? [];
    const done = resultsIn(request.body.messages).filter(({ output }) => !output.startsWith("Interrupted"));
    const denied = userText(request.body.messages).split("The landing was not approved: ").length - 1;
    const first = tried === "1";
    if (how === "fail" && first) return { fail: { status: 400, message: "This model cannot do that." } };
    if (how === "give-up" && first)
      return done.some(({ tool }) => tool === "shell")
        ? { calls: [{ tool: "give_up", input: { why: "It cannot be.", tried: "Everything." } }] }
        : { calls: [{ tool: "shell", input: { command: "false" } }] };
    if (how === "slow") {
      const key = `${name} ${id}`;
      const gate = waiting.get(key) ?? Promise.withResolvers<void>();
      waiting.set(key, gate);
      held.add(key);
      await gate.promise;
    }
    const question = done.find(({ tool }) => tool === "ask");
    if (how.startsWith("ask-") && question === undefined)
      return {
        calls: [{ tool: "ask", input: { question: `Red or blue, in ${name}-${id}?`, options: ["red", "blue"] } }],
      };
    const wrote = done.filter(({ tool }) => tool === "write").length;
    if (wrote > denied) return { text: `Wrote it for ${id}.\n\nCommit: Write ${name}-${id}` };
    if (how === "background" && !done.some(({ tool }) => tool === "shell"))
      return { calls: [{ tool: "shell", input: { command: "sleep 999 & sleep 999 > /dev/null & echo begun" } }] };
    const content = question?.output ?? (how === "wrong" ? "wrong" : how === "mend" ? "right" : "made");
    const path = fileOf(name, id, how);
    return { calls: [{ tool: "write", input: { path, content: `${content} ${wrote}\n` } }] };
  };

  const makes = (request: MockRequest): MockTurn => {
    const done = resultsIn(request.body.messages).filter(({ tool }) => tool === "author_squad").length;
    const denied = userText(request.body.messages).split("The squad was not approved: ").length - 1;
    if (done > denied) return { text: "Made." };
    return { calls: [author(roster, { orchestrator: `You lead the crew, in way ${denied}.` })] };
  };

  return {
    held,
    release(key) {
      held.delete(key);
      waiting.get(key)?.resolve();
      waiting.delete(key);
    },
    answered: (askID) => void answered.add(askID),
    script(request) {
      if (isMission(request)) {
        const story = storyOf(userText(request.body.messages));
        return story === undefined ? { text: "Whose is this?" } : lead(story, request);
      }
      if (request.first.startsWith("Make the squad")) return makes(request);
      const story = storyOf(request.first);
      return story === undefined ? { text: "Done." } : work(story, request);
    },
    judges(request) {
      const story = storyOf(request.first);
      const commit = /to ([0-9a-f]{40}), as the project is now/.exec(request.first)?.[1] ?? "";
      if (story?.rejected !== true) return undefined;
      if (!judged.has(story.name)) judged.set(story.name, commit);
      if (judged.get(story.name) !== commit) return undefined;
      return request.turn === 0 ? verdictOn("rejected", "The whole is wrong.") : wholeAccepted(request);
    },
  };
};

/** With which `finish` is refused. */
export const redWords = "checks of the whole are red";

/** What stands for the whole is one file, which a first phase gets wrong. */
const fileOf = (name: string, id: string, how: string): string =>
  how === "wrong" || how === "mend" ? `${name}-whole.txt` : `${name}-${id}.txt`;

const phaseCall = ({ id, after = [], squad }: Phase, name: string): Call => ({
  tool: "phase",
  input: { id, title: `Phase ${id}`, phase: squad ? `web/crew-${name}` : id, objective: `${id} is there.`, after },
});

const roster = Array.from({ length: 3 }, (_, index) => ({ name: `agent-${index}`, duty: "A duty." }));

const produce = (phase: string, name: string): Call => ({
  tool: "produce_squad",
  input: { phase, squad: `crew-${name}`, name: "Crew", summary: "A crew.", roster },
});

const finish = (outcome: string, summary: string, more: Record<string, unknown> = {}): Call => ({
  tool: "finish",
  input: { outcome, summary, ...more },
});
