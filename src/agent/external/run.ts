import { Readable, Writable } from "node:stream";
import { setImmediate as turnOver } from "node:timers/promises";
import {
  client,
  type ClientContext,
  type ContentBlock,
  type InitializeResponse,
  methods,
  type NewSessionResponse,
  ndJsonStream,
  PROTOCOL_VERSION,
  type PromptResponse,
  RequestError,
  type ToolCallUpdate,
} from "@agentclientprotocol/sdk";
import { isService, messagesOf } from "../../domain/conversation/message.ts";
import { messageOf } from "../../error.ts";
import type { Network } from "../../process/network/allow-list.ts";
import type { PromptMessage } from "../../model/model.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import { serveHost } from "./host.ts";
import { createExternalPermissions } from "./permission.ts";
import type { SessionContext } from "../session.ts";
import { promptOf } from "../prompt/message.ts";
import { systemOf } from "../prompt/system.ts";
import { createEventRecorder } from "./recorder.ts";
import { transcriptOf } from "./transcript.ts";

/**
 * An agent that is a separate program, driven over the Agent Client Protocol. It brings its model, loop and tools;
 * Sortie provides the workspace, records the agent's events, decides about permissions and ends its process. The
 * process lives for one turn of the Task, because nothing may change the tree while checks run.
 */

export type ExternalAgent = {
  name: string;
  /** Run by bash in the workspace. */
  command: string;
  /** Environment variables passed on to the agent, by name and value. */
  env: Readonly<Record<string, string>>;
  /** Folder for its settings and sessions; undefined: a folder that belongs to the Task. */
  home: string | undefined;
  network: Network;
  /** Session mode to select if the agent offers it. */
  mode: string;
};

/** Longest wait for the agent's start, and for its reaction to a cancel, in milliseconds. */
const startMs = 60_000;
const cancelMs = 10_000;

export const runExternal = async (turn: SessionContext, agent: ExternalAgent): Promise<void> => {
  await turn.space();
  const workspace = await turn.workspace();
  const process = await workspace.startInteractive({
    run: agent.command,
    env: agent.env,
    home: agent.home,
    network: agent.network,
    signal: turn.signal,
  });
  let cancel = (): void => {};
  let read = turn.state().version;
  const hasNews = () => turn.chat.unread.some(({ version, message }) => version > read && !isService(message));
  let recorder = createEventRecorder(turn, read);
  /**
   * Serializes the recording of events in the order they arrive. The first event that cannot be written sets `lost` and
   * ends the turn.
   */
  let facts = Promise.resolve();
  let lost: { error: unknown } | undefined;
  const note = (work: () => Promise<unknown>): Promise<void> => {
    facts = facts.then(async () => {
      if (lost !== undefined) return;
      try {
        await work();
        if (isBetween(turn) && (!turn.wanted() || hasNews())) cancel();
      } catch (error) {
        lost = { error };
        process.kill();
      }
    });
    return facts;
  };

  /** Resolves when all updates are recorded. Updates that were sent before a response may be dispatched after it. */
  const settled = async (): Promise<void> => {
    for (let seen: Promise<void> | undefined; seen !== facts; ) {
      seen = facts;
      await seen;
      await turnOver();
    }
  };

  const begin = async (call: ToolCallUpdate): Promise<string> => {
    let callID = "";
    await note(async () => {
      callID = await recorder.begin(call.toolCallId, call);
    });
    if (lost !== undefined) throw lost.error;
    return callID;
  };
  const permissions = createExternalPermissions(turn, [workspace.root, turn.task().directory]);
  const app = serveHost(client({ name: "sortie" }), turn, workspace, permissions, begin).onNotification(
    methods.client.session.update,
    ({ params }) => note(() => recorder.take(params.update)),
  );

  const stream = ndJsonStream(
    Writable.toWeb(process.stdin) as WritableStream<Uint8Array>,
    Readable.toWeb(process.stdout) as ReadableStream<Uint8Array>,
  );
  try {
    await app.connectWith(stream, async (line) => {
      const opened = await within(startMs, openSession(line, turn, agent, process.root));
      let fresh = opened.fresh;
      while (turn.wanted()) {
        read = turn.state().version;
        recorder = createEventRecorder(turn, read);
        const prompt = await contentOf(turn, opened.takesImages, fresh);
        fresh = false;
        const answered = line.request(methods.agent.session.prompt, { sessionId: opened.sessionID, prompt });
        let asked = false;
        cancel = () => {
          if (asked) return;
          asked = true;
          // An agent that has already exited needs no cancel, and one that does not react to it is killed.
          line.notify(methods.agent.session.cancel, { sessionId: opened.sessionID }).catch(() => {});
          setTimeout(() => process.kill(), cancelMs).unref();
        };
        const stop: PromptResponse = await answered;
        cancel = () => {};
        await settled();
        if (lost !== undefined) throw lost.error;
        await recorder.finish(stop);
        if (turn.state().reply?.finish === "end" && turn.chat.unread.length === 0) return;
      }
    });
  } catch (error) {
    turn.signal.throwIfAborted();
    await settled();
    if (lost !== undefined) throw lost.error;
    process.kill();
    await process.gone;
    await recorder.finish(failureOf(error, agent, process.stderr()));
  } finally {
    process.kill();
    await process.gone;
  }
};

/** Whether no call is under way: the turn can then be interrupted if the Task has other work for the agent. */
const isBetween = (turn: SessionContext): boolean => turn.state().open.length === 0;

type Opened = {
  sessionID: string;
  takesImages: boolean;
  /** The agent has not been given anything of the Task yet. */
  fresh: boolean;
};

/** Resumes the session of an earlier turn if the agent still has it, otherwise opens a new one and records its id. */
const openSession = async (
  line: ClientContext,
  turn: SessionContext,
  agent: ExternalAgent,
  cwd: string,
): Promise<Opened> => {
  const hello: InitializeResponse = await line.request(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientInfo: { name: "sortie", version: "0" },
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
  });
  if (hello.protocolVersion !== PROTOCOL_VERSION)
    throw new Error(`Expected protocol version ${PROTOCOL_VERSION}, got ${hello.protocolVersion}`);
  const takesImages = hello.agentCapabilities?.promptCapabilities?.image === true;
  const earlier = turn.task().externalSessions[turn.sessionID];
  if (earlier !== undefined && hello.agentCapabilities?.sessionCapabilities?.resume != null) {
    const resumed = await line
      .request(methods.agent.session.resume, { sessionId: earlier, cwd, mcpServers: [] })
      .catch(() => undefined);
    if (resumed !== undefined) return { sessionID: earlier, takesImages, fresh: false };
  }
  const session: NewSessionResponse = await line.request(methods.agent.session.new, { cwd, mcpServers: [] });
  const { sessionId } = session;
  if (session.modes?.availableModes.some(({ id }) => id === agent.mode) && session.modes.currentModeId !== agent.mode)
    await line.request(methods.agent.session.setMode, { sessionId, modeId: agent.mode });
  await turn.record([
    {
      type: "agent.attached",
      data: { sessionID: turn.sessionID, agent: agent.name, attached: sessionId, about: aboutOf(hello) },
    },
  ]);
  return { sessionID: sessionId, takesImages, fresh: true };
};

const aboutOf = ({ agentInfo }: InitializeResponse): string =>
  agentInfo == null ? "" : `${agentInfo.name} ${agentInfo.version}`.slice(0, 100);

/**
 * The content that the agent has not read yet: for a new session the instructions and the conversation so far,
 * otherwise only the new messages.
 */
const contentOf = async (turn: SessionContext, takesImages: boolean, fresh: boolean): Promise<ContentBlock[]> => {
  const { chat, store } = turn;
  const all = await promptOf(chat, store.blobs, turn.last);
  const unread = all.slice(messagesOf(chat).length - chat.unread.length);
  const said = all.slice(0, all.length - unread.length);
  const blocks: ContentBlock[] = [];
  if (fresh) blocks.push({ type: "text", text: systemOf(turn.agent, turn.task(), turn.facts) });
  if (fresh && said.length > 0) blocks.push({ type: "text", text: transcriptOf(said) });
  for (const message of unread) if (message.role === "user") blocks.push(...blocksOf(message, takesImages));
  if (unread.length === 0)
    blocks.push({
      type: "text",
      text: "The service was interrupted while you worked. The call that was under way may have run partly: look at the state of the files, then go on.",
    });
  return blocks;
};

const blocksOf = (message: PromptMessage & { role: "user" }, takesImages: boolean): ContentBlock[] => [
  { type: "text", text: message.text },
  ...message.files.map((file): ContentBlock => {
    const bytes = Buffer.from(file.bytes);
    if (takesImages && file.mime.startsWith("image/"))
      return { type: "image", data: bytes.toString("base64"), mimeType: file.mime };
    const text = file.mime.startsWith("text/") || file.mime === "application/json" ? bytes.toString("utf8") : undefined;
    return {
      type: "text",
      text:
        text === undefined
          ? `[Attachment ${file.filename} (${file.mime}, ${bytes.length} bytes) cannot be shown to this agent.]`
          : `Attachment ${file.filename}:\n\n${text}`,
    };
  }),
];

const within = async <T>(ms: number, work: Promise<T>): Promise<T> => {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${ms / 1000} s`)), ms);
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
};

const failureOf = (error: unknown, agent: ExternalAgent, stderr: string): TurnFailure => {
  const said = stderr.trim() === "" ? "" : ` It wrote: ${stderr.trim().slice(-1000)}`;
  const signIn = error instanceof RequestError && error.code === RequestError.authRequired().code;
  return {
    code: "agent_failed",
    message: `The external agent ${agent.name} failed: ${messageOf(error)}.${said}`,
    retryable: true,
    remedy: signIn
      ? `Sign in to ${agent.name} in its home folder, or give it a key: agents.${agent.name}.env in config.jsonc.`
      : `Check agents.${agent.name}.command in config.jsonc, then send a message to continue.`,
  };
};
