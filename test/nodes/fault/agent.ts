import { createHash } from "node:crypto";
import { shell } from "../../harness/double/hostile-text.ts";
import { type MockRequest, type MockTurn, textOf } from "../../harness/double/mock-provider.ts";
import { dispatch, finish, isMission, newestOf, plan } from "../../harness/double/missions.ts";

/**
 * The model of the fault matrix. It keeps no state: what it says follows from the conversation that it is sent, as
 * after a fault the same conversation comes again, from another node, and with what the service has to say of the
 * fault.
 */

/** The three files of a Task, by the name that its request has. */
export const filesOf = (name: string): string[] => [1, 2, 3].map((part) => `out/${name}-${part}.txt`);

export const requestOf = (name: string): string => `Write: ${name}.`;

/** A long text that can be told to be whole: 24 KB that follow from a word. */
export const longText = (word: string): string => {
  let text = word;
  for (let at = 0; text.length < 24_000; at += 1)
    text += ` ${createHash("sha256").update(`${word} ${at}`).digest("base64url")}`;
  return text;
};

/** Whether such a text is in this one, whole. */
export const hasLongText = (text: string, word: string): boolean => text.includes(longText(word));

const write = (name: string, files: readonly string[]): string =>
  files.map((file) => `mkdir -p out && echo ${name} > ${file}`).join(" && ");

/** Milliseconds that a reply takes: the same for the same request. */
const latencyOf = (first: string, turn: number): number =>
  60 + (createHash("sha256").update(`${first} ${turn}`).digest().readUInt16BE(0) % 400);

const ofTask = ({ first, turn, body }: MockRequest): MockTurn => {
  const name = /Write: ([\w-]+)\./.exec(first)?.[1] ?? "unnamed";
  const latencyMs = latencyOf(first, turn);
  const files = filesOf(name);
  const last = body.messages.at(-1);
  // The service has something to say: files are lost, or a check failed.
  const isTold = turn > 0 && last?.role === "user";
  const interrupted = last?.role === "tool" && textOf(last.content).includes("Interrupted: the run stopped");
  if (isTold || interrupted) return { ...shell(write(name, files)), latencyMs };
  const file = files[turn];
  if (file !== undefined) return { ...shell(`${write(name, [file])} && sleep 0.1`), latencyMs };
  const report = name.endsWith("long") ? `\n\n${longText(name)}` : "";
  return { text: `Done.${report}\n\nCommit: Add ${name}`, latencyMs };
};

/** Two phases, one after the other. */
const ofMission = (request: MockRequest): MockTurn => {
  const { first, turn, body } = request;
  const name = /Lead: ([\w-]+)\./.exec(first)?.[1] ?? "unnamed";
  const latencyMs = latencyOf(first, turn);
  const results = new Map(body.messages.map(({ tool_call_id: id, content }) => [id, textOf(content)]));
  const calls = body.messages.flatMap(({ tool_calls: made = [] }) =>
    made.map(({ id, function: { name: tool, arguments: given } }) => ({
      tool,
      given,
      result: results.get(id) ?? "",
    })),
  );
  const dispatched = (phase: string) =>
    calls.some(
      ({ tool, given, result }) => tool === "dispatch" && given.includes(`"${phase}"`) && /task_\w{26}/.test(result),
    );
  const planned = calls.some(({ tool, result }) => tool === "plan" && !result.includes("Interrupted:"));
  if (!planned) return { calls: [plan("a", { id: "b", after: ["a"] })], latencyMs };
  for (const phase of ["a", "b"])
    if (!dispatched(phase)) {
      // Too early: it is asked again at the end of the first one.
      if (turn > 0 && body.messages.at(-1)?.role === "tool" && /Nothing was dispatched/.test(newestOf(request)))
        return { text: "I wait.", latencyMs };
      return { calls: [dispatch(phase, requestOf(`${name}-${phase}`))], latencyMs };
    }
  if (calls.some(({ tool, result }) => tool === "finish" && !/Interrupted:|refused/.test(result)) || turn > 30)
    return { text: "Nothing more.", latencyMs };
  return body.messages.at(-1)?.role === "tool" ? { text: "I wait.", latencyMs } : { calls: [finish()], latencyMs };
};

export const reply = (request: MockRequest): MockTurn => (isMission(request) ? ofMission(request) : ofTask(request));
