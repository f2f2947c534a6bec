import { exitCodeOf } from "../../domain/evidence/exit-code.ts";
import { shownCommand } from "../../domain/evidence/named-command.ts";
import { tellingLines } from "../../domain/evidence/output.ts";
import { repetitionNote } from "../../domain/session/repetition.ts";
import { repetitionOf } from "../../domain/session/session.ts";
import { type AssistantMessage, messagesOf } from "../../domain/conversation/message.ts";
import { type DomainEvent, isMission } from "../../domain/event.ts";
import { editingTools, notRun } from "../../domain/conversation/edited.ts";
import { messageOf } from "../../error.ts";
import type { EventData } from "../../protocol/event/event.ts";
import { keepText, loadInput, loadText, outputBytes } from "../../store/blob/text.ts";
import { parseArguments } from "../../tool/argument.ts";
import {
  type Effect,
  effectOf,
  NoFiles,
  type Tool,
  type ToolResult,
  type Touched,
  WaitsForAnswer,
} from "../../tool/tool.ts";
import { ask } from "../permission/ask.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { AgentSession, Diagnostics } from "../session.ts";
import { restrictFiles, permit, restrictWeb } from "../permission/permit.ts";

/**
 * Runs the calls of one reply. Each result is recorded as its call ends. Calls that only read run concurrently; a call
 * that may change files waits for all calls before it, and later calls wait for it. A call that waits for an answer
 * stays open and does not hold up the others.
 *
 * Once an edit has failed, later commands of the reply are not run: they were meant for files that do not exist in that
 * form, and their results would be evidence about other files. Later edits are still made, because each one is
 * independent, and reads are answered.
 */

/**
 * `given`: the arguments as the model sent them, if still in memory; secrets in them are redacted in the recorded
 * input.
 */
type Call = AssistantMessage["calls"][number] & { given?: unknown };

/** How many reads run at once: recording the results of hundreds together would hold up the service. */
const readsAtOnce = 16;

/**
 * Aborting `cut` means that the Task's time is used up: running calls end and are recorded as interrupted. Rejects
 * after all calls have ended.
 */
export const runCalls = async (session: AgentSession, calls: readonly Call[], cut = session.signal): Promise<void> => {
  const ends: Promise<void>[] = [];
  let changed: Promise<unknown> = Promise.resolve();
  let failedEdit: string | undefined;
  for (const call of calls) {
    const tool = session.tools.get(call.tool);
    const reads = isReading(effectOfCall(tool, "given" in call ? call.given : call.input));
    const edits = editingTools.has(call.tool);
    const before = Promise.all(reads ? [changed, ends.at(-readsAtOnce) ?? changed] : ends);
    const end = before.then(async () => {
      if (failedEdit !== undefined && !reads && !edits) return session.record([withheld(session, call, failedEdit)]);
      const outcome = await runCall(session, call, tool, cut);
      if (edits && outcome === "error") failedEdit ??= call.tool;
    });
    ends.push(end);
    if (!reads) changed = end;
  }
  // Wait for all calls, also when one fails: the caller must not continue while a call still runs.
  const failed = (await Promise.allSettled(ends)).find((end) => end.status === "rejected");
  if (failed !== undefined) throw failed.reason;
};

/** The effect of a call with these arguments, as the model sent them; "none" for an unknown tool. */
export const effectOfCall = (tool: Tool | undefined, input: unknown): Effect =>
  tool === undefined ? "none" : effectOf(tool, input);

/** Whether a call with this effect changes no files. */
const isReading = (effect: Effect): boolean => effect === "none" || effect === "log";

type Outcome = EventData["tool.finished"]["outcome"];

/** undefined: the call waits for an answer. */
const runCall = async (
  session: AgentSession,
  call: Call,
  tool: Tool | undefined,
  cut: AbortSignal,
): Promise<Outcome | undefined> => {
  const started = performance.now();
  const attempted = await attempt(session, call, tool, cut).catch((error: unknown) => {
    if (error instanceof WaitsForAnswer) return undefined;
    throw error;
  });
  if (attempted === undefined) return undefined;
  const { result, sandbox, found } = attempted;
  if (result === undefined) {
    await session.record([interruptedCall(session.sessionID, call, outOfTime)]);
    return "interrupted";
  }
  // Redact first, because comparing with earlier results and the length limit both apply to the text as it is stored.
  const clean = session.store.redact(result.output);
  const news = session.news?.(call.tool);
  const output = `${clean}${noted(session, call, { ...result, output: clean })}${news === undefined ? "" : `\n\n[${news}]`}${found === undefined ? "" : `\n\n${session.store.redact(found)}`}`;
  const facts = result.facts ?? [];
  const durationMs = Math.round(performance.now() - started);
  const tree = await treeAfter(session, call, tool, result);
  const end = finished(session, call, {
    outcome: result.outcome,
    output: await keepText(session.store.blobs, output, outputBytes),
    ...(result.full === undefined ? {} : { full: await session.store.blobs.put(bytesOf(result.full)) }),
    exitCode: result.exitCode ?? null,
    durationMs,
    ...(result.evidence === undefined ? {} : { evidence: proofOf(session, result.evidence, result.exitCode) }),
    ...(tree === null ? {} : { tree }),
    ...(sandbox ? { sandbox: session.state().sandbox?.name ?? "process-group" } : {}),
  });
  // The model may see a result before it is on disk: if a crash loses it, the recorded intent still says what may have
  // happened.
  await session.record([...facts, end], { lazy: facts.length === 0 });
  return result.outcome;
};

/**
 * The tree's id after a call that may have changed files in place, where no commit records its effect. Computed only
 * once there is evidence that the change may have made outdated; otherwise null.
 */
const treeAfter = async (
  session: AgentSession,
  call: Call,
  tool: Tool | undefined,
  { evidence }: ToolResult,
): Promise<string | null> => {
  const reads = isReading(effectOfCall(tool, "given" in call ? call.given : call.input));
  if (reads || evidence !== undefined || isMission(session.stream)) return null;
  const { workspace, evidence: seen } = session.task();
  return workspace?.kind === "directory" && seen.length > 0 ? (await session.workspace()).tree() : null;
};

/** The output is cut only after secrets are removed: half a secret would not be recognised. */
const proofOf = (
  { store }: AgentSession,
  { command, output, ...rest }: NonNullable<ToolResult["evidence"]>,
  exitCode: number | undefined,
): NonNullable<EventData["tool.finished"]["evidence"]> => {
  const { last, masked } = exitCodeOf(command);
  const red = exitCode !== 0;
  return {
    ...rest,
    ...(last ? { last } : {}),
    command: shownCommand(store.redact(command)),
    lastLines: tellingLines(store.redact(output), { red, suspect: red || masked }),
  };
};

const bytesOf = (text: string | Uint8Array): Uint8Array => (typeof text === "string" ? Buffer.from(text) : text);

const nothing: Disposable = { [Symbol.dispose]() {} };

const outOfTime = "The Task's time (maxMinutes) was used up.";

/** A note for the model when it repeats itself; if it does not stop, `stopReason` ends the Task. */
const noted = (session: AgentSession, { callID }: Call, result: ToolResult): string => {
  const open = session.state().open.filter(({ sessionID }) => sessionID === session.sessionID);
  const mark = open.find((call) => call.callID === callID)?.hash;
  if (session.limits.loopRepeats === 0 || mark === undefined) return "";
  return repetitionNote(repetitionOf(session.state(), session.sessionID), mark, result, open.length === 1);
};

/** `result` undefined: the call was ended by `cut`. `found`: what the project's checkers report. */
type Attempted = { result: ToolResult | undefined; sandbox: boolean; found?: string | undefined };

const attempt = async (
  session: AgentSession,
  call: Call,
  tool: Tool | undefined,
  cut: AbortSignal,
): Promise<Attempted> => {
  const failed = (output: string) => ({ result: { outcome: "error" as const, output }, sandbox: false });
  if (tool === undefined)
    return failed(`There is no tool "${call.tool}". Available: ${session.specs.map(({ name }) => name).join(", ")}.`);
  const input = "given" in call ? call.given : await loadInput(session.store.blobs, call.input);
  const problem = invalidInput(input);
  if (problem !== undefined) return failed(problem);
  const parsed = parseArguments(tool.input, input);
  if ("wrong" in parsed) return failed(`The arguments of ${tool.name} are wrong: ${parsed.wrong}. Nothing was done.`);
  const meant = tool.meant?.(parsed.data);
  return meant === undefined
    ? carryOut(session, call, tool, parsed.data, cut)
    : carryOut(session, call, meant.tool, meant.input, cut);
};

/** Runs a call whose arguments are valid, once the rules allow it and the disk has space. */
const carryOut = async (
  session: AgentSession,
  call: Call,
  tool: Tool,
  input: unknown,
  cut: AbortSignal,
): Promise<Attempted> => {
  const failed = (output: string) => ({ result: { outcome: "error" as const, output }, sandbox: false });
  const workspace = await session.workspace(tool.name).catch((error: unknown) => {
    if (error instanceof NoFiles) return error;
    throw error;
  });
  if (workspace instanceof NoFiles) return failed(workspace.message);
  const refused = await permit(session, call.callID, tool, input, workspace.files.inside);
  if (refused !== undefined) return { result: refused, sandbox: false };
  const reads = isReading(effectOf(tool, input));
  if (!reads) await session.space();
  // Reading and writing to the log put no load on the machine, and delegated work takes slots of its own.
  const free = reads ? nothing : session.slot(cut);
  using slot = await Promise.resolve(free).catch((error: unknown) => {
    session.signal.throwIfAborted();
    if (!cut.aborted) throw error;
    return null;
  });
  if (slot === null) return { result: undefined, sandbox: false };
  const { diagnostics } = session;
  const touched: Touched[] = [];
  const result = await tool
    .run(input, {
      callID: call.callID,
      sessionID: session.sessionID,
      workspace: restrictFiles(session, workspace, tool, input),
      limits: session.limits,
      signal: cut,
      has: (name) => session.specs.some((spec) => spec.name === name),
      kept: (callID) => keptOutput(session, callID),
      keep: (bytes) => session.store.blobs.put(bytes),
      background: session.background,
      isNamed: session.isNamed,
      secretsFor: session.secretsFor,
      web: restrictWeb(session, tool, input),
      touched: diagnostics && ((files) => touched.push(...files)),
      onOutput: (text) => session.live("tool.output", call.callID, text),
      state: session.task,
      record: session.record,
      ask: (question) => ask(session, call.callID, { kind: "question", ...question }),
      delegate: (work) => session.delegate(call.callID, work, cut),
    })
    .catch((error: unknown): ToolResult | undefined => {
      session.signal.throwIfAborted();
      if (error instanceof WaitsForAnswer) throw error;
      if (cut.aborted) return undefined;
      session.log.error({ error: messageOf(error), tool: tool.name, call: call.callID }, "a tool failed unexpectedly");
      return { outcome: "error", output: `The tool ${tool.name} failed: ${messageOf(error)}` };
    });
  session.signal.throwIfAborted();
  if (reads && result?.outcome === "ok") warm(diagnostics, workspace, input);
  const found = touched.length > 0 ? await diagnostics?.after(workspace, touched) : diagnostics?.late(workspace);
  session.signal.throwIfAborted();
  return { result, sandbox: tool.name === "shell", found };
};

/** A file that was read may be edited next. The tool has already made sure that it is a file of the project. */
const warm = (diagnostics: Diagnostics | undefined, workspace: Workspace, input: unknown): void => {
  const { path } = (input ?? {}) as { path?: unknown };
  if (typeof path === "string") diagnostics?.warm(workspace, workspace.files.inside(path));
};

/** The whole text behind the result of an earlier call in this conversation; undefined when there is none. */
const keptOutput = async ({ chat, store }: AgentSession, callID: string): Promise<Buffer | undefined> => {
  const ref = chat.outputs.get(callID);
  if (ref !== undefined) return store.blobs.get(ref.sha256);
  // A result that was shortened only because its turn ran out of room has its whole text in the conversation.
  for (const message of messagesOf(chat)) {
    const result = message.role === "tool" ? message.results.find((each) => each.callID === callID) : undefined;
    if (result !== undefined) return Buffer.from(await loadText(store.blobs, result.output));
  }
  return undefined;
};

/** Marks arguments that were not valid JSON: the loop passes `{ "$invalid": reason }` instead. */
export const markInvalid = (why: string) => ({ $invalid: why });
const invalidInput = (input: unknown): string | undefined =>
  typeof input === "object" && input !== null && "$invalid" in input ? String(input.$invalid) : undefined;

const finished = (
  session: Pick<AgentSession, "sessionID">,
  call: Pick<Call, "callID" | "tool">,
  result: Omit<EventData["tool.finished"], "callID" | "sessionID" | "tool">,
): DomainEvent => ({
  type: "tool.finished",
  data: { callID: call.callID, sessionID: session.sessionID, tool: call.tool, ...result },
});

const withheld = ({ sessionID }: AgentSession, call: Call, edit: string): DomainEvent =>
  finished({ sessionID }, call, {
    outcome: "error",
    output: `${notRun}\`${edit}\` before it in the same reply failed, so the files are not what it was meant for. Mend that, and call it again.`,
    exitCode: null,
    durationMs: 0,
  });

/** The result of a call that a dead run left open and that must not be repeated. */
export const interruptedCall = (sessionID: string, call: Pick<Call, "callID" | "tool">, state: string): DomainEvent =>
  finished({ sessionID }, call, {
    outcome: "interrupted",
    output: `Interrupted: the run stopped while this call was under way. It may have run partly or wholly, and was not repeated. ${state}`,
    exitCode: null,
    durationMs: 0,
  });
