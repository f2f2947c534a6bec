import { isAbsolute, relative } from "node:path";
import {
  type ClientApp,
  type CreateTerminalRequest,
  methods,
  type PermissionOption,
  type RequestPermissionRequest,
  RequestError,
  type TerminalOutputResponse,
} from "@agentclientprotocol/sdk";
import { FileRefused } from "../workspace/files.ts";
import type { Ran } from "../workspace/process.ts";
import { createTail } from "../workspace/tail.ts";
import type { Workspace } from "../workspace/workspace.ts";
import type { ExternalTurn } from "./loop.ts";

/**
 * What an external agent may ask of us: files of the workspace, commands in its sandbox, and leave. Everything goes
 * the same way as for our own agents, and what is refused is refused to it in the protocol's words.
 */

export type Leave = (request: RequestPermissionRequest) => Promise<"allow" | "deny">;

/** Largest file read or written for an agent at once, bytes. */
const maxFile = 8 * 1024 * 1024;
const maxTerminals = 8;
const terminalBytes = 256 * 1024;

type Terminal = {
  done: Promise<Ran>;
  /** Set once it has ended. */
  ran: Ran | undefined;
  tail: ReturnType<typeof createTail>;
  stop: AbortController;
};

export const serveHost = (app: ClientApp, turn: ExternalTurn, workspace: Workspace, leave: Leave): ClientApp => {
  const terminals = new Map<string, Terminal>();
  let serial = 0;

  /** Agents speak in absolute paths, of the tree as they see it. */
  const inside = (path: string): string => {
    for (const root of [workspace.root, turn.state().directory]) {
      const within = relative(root, path);
      if (isAbsolute(path) && !within.startsWith("..") && !isAbsolute(within)) return within;
    }
    throw RequestError.invalidParams(undefined, `Expected a path inside ${workspace.root}, got ${path}`);
  };

  const terminalOf = (id: string): Terminal => {
    const terminal = terminals.get(id);
    if (terminal === undefined) throw RequestError.resourceNotFound(id);
    return terminal;
  };

  const create = (request: CreateTerminalRequest): string => {
    if (terminals.size >= maxTerminals)
      throw RequestError.invalidRequest(undefined, `Expected at most ${maxTerminals} terminals, release one first`);
    const stop = new AbortController();
    const tail = createTail(Math.min(request.outputByteLimit ?? terminalBytes, terminalBytes));
    const done = workspace.run({
      run: [request.command, ...(request.args ?? [])].map(quoted).join(" "),
      cwd: request.cwd == null ? workspace.root : `${workspace.root}/${inside(request.cwd)}`,
      env: Object.fromEntries((request.env ?? []).map(({ name, value }) => [name, value])),
      timeoutMs: turn.limits.commandMaxSeconds * 1000,
      keepBytes: terminalBytes,
      signal: AbortSignal.any([stop.signal, turn.signal]),
      onOutput: (text) => tail.add(Buffer.from(text)),
    });
    const terminal: Terminal = { done, ran: undefined, tail, stop };
    void done.then((ran) => {
      terminal.ran = ran;
    });
    const id = `terminal-${(serial += 1)}`;
    terminals.set(id, terminal);
    return id;
  };

  return app
    .onRequest(methods.client.session.requestPermission, async ({ params }) => {
      const decision = await leave(params);
      const option = optionFor(params.options, decision);
      return { outcome: option === undefined ? { outcome: "cancelled" } : { outcome: "selected", optionId: option } };
    })
    .onRequest(methods.client.fs.readTextFile, async ({ params }) => {
      const { bytes } = await refusing(workspace.files.read(inside(params.path), maxFile));
      const text = bytes.toString("utf8");
      if (params.line == null && params.limit == null) return { content: text };
      const from = Math.max(0, (params.line ?? 1) - 1);
      const lines = text.split("\n");
      return { content: lines.slice(from, params.limit == null ? undefined : from + params.limit).join("\n") };
    })
    .onRequest(methods.client.fs.writeTextFile, async ({ params }) => {
      if (params.content.length > maxFile)
        throw RequestError.invalidParams(undefined, `Expected at most ${maxFile} bytes, got ${params.content.length}`);
      await refusing(workspace.files.write(inside(params.path), params.content));
      return {};
    })
    .onRequest(methods.client.terminal.create, ({ params }) => ({ terminalId: create(params) }))
    .onRequest(methods.client.terminal.output, ({ params }): TerminalOutputResponse => {
      const { tail, ran } = terminalOf(params.terminalId);
      const output = tail.text();
      return { output, truncated: tail.dropped() > 0, ...(ran === undefined ? {} : { exitStatus: statusOf(ran) }) };
    })
    .onRequest(methods.client.terminal.waitForExit, async ({ params }) =>
      statusOf(await terminalOf(params.terminalId).done),
    )
    .onRequest(methods.client.terminal.kill, async ({ params }) => {
      const terminal = terminalOf(params.terminalId);
      terminal.stop.abort();
      await terminal.done;
      return {};
    })
    .onRequest(methods.client.terminal.release, async ({ params }) => {
      const terminal = terminalOf(params.terminalId);
      terminals.delete(params.terminalId);
      terminal.stop.abort();
      await terminal.done;
      return {};
    });
};

/** Its own name for what was decided; "once" where there is a choice, so that the next call is asked for again. */
const optionFor = (options: readonly PermissionOption[], decision: "allow" | "deny"): string | undefined => {
  const wanted = decision === "allow" ? ["allow_once", "allow_always"] : ["reject_once", "reject_always"];
  for (const kind of wanted) {
    const option = options.find((candidate) => candidate.kind === kind);
    if (option !== undefined) return option.optionId;
  }
  return undefined;
};

const refusing = async <T>(work: Promise<T>): Promise<T> => {
  try {
    return await work;
  } catch (error) {
    if (error instanceof FileRefused) throw RequestError.invalidParams(undefined, error.message);
    throw error;
  }
};

const statusOf = ({ exitCode, ended }: Ran) =>
  exitCode === null ? { signal: ended === "exit" ? "unknown" : "SIGKILL" } : { exitCode };

const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;
