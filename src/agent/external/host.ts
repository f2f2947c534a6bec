import { isAbsolute } from "node:path";
import {
  type ClientApp,
  type CreateTerminalRequest,
  methods,
  type PermissionOption,
  RequestError,
  type TerminalOutputResponse,
  type ToolCallUpdate,
} from "@agentclientprotocol/sdk";
import type { PermissionRequest } from "../../domain/permission/rule.ts";
import { createBoundedOutput } from "../../process/command/output.ts";
import type { CommandResult } from "../../process/process.ts";
import { shellQuote } from "../../shell-quote.ts";
import { FileRefused } from "../../workspace/file/files.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { SessionContext } from "../session.ts";
import { type ExternalPermissions, within } from "./permission.ts";

/**
 * Serves the requests that an external agent makes of its client: files of the workspace, commands in the sandbox, and
 * permissions. They pass the same rules as the calls of Sortie's own agents; a refusal is an error of the Agent Client
 * Protocol.
 */

/** Largest file that is read or written for an agent in one request, in bytes. */
const maxFile = 8 * 1024 * 1024;

const maxTerminals = 8;

const terminalBytes = 256 * 1024;

type Terminal = {
  done: Promise<CommandResult>;
  /** Set once the command has ended. */
  ran: CommandResult | undefined;
  tail: ReturnType<typeof createBoundedOutput>;
  stop: AbortController;
};

export const serveHost = (
  app: ClientApp,
  turn: SessionContext,
  workspace: Workspace,
  permissions: ExternalPermissions,
  /** Records the intent of a call (once) and resolves to the call's id in the event log. */
  begin: (call: ToolCallUpdate) => Promise<string>,
): ClientApp => {
  const terminals = new Map<string, Terminal>();
  let serial = 0;

  /**
   * Agents send absolute paths in the tree they see, which is the worktree or the user's directory. Returns the path
   * relative to that tree; throws for a path outside of both.
   */
  const inside = (path: string): string => {
    const inner = within(path, [workspace.root, turn.task().directory]);
    if (!isAbsolute(inner)) return inner;
    throw RequestError.invalidParams(undefined, `Expected a path inside ${workspace.root}, got ${path}`);
  };

  const check = (request: PermissionRequest): void => {
    const rule = permissions.forbids(request);
    if (rule === undefined) return;
    throw RequestError.invalidRequest(undefined, `A rule forbids this, or wants you to ask for permission: ${rule}`);
  };

  const terminalOf = (id: string): Terminal => {
    const terminal = terminals.get(id);
    if (terminal === undefined) throw RequestError.resourceNotFound(id);
    return terminal;
  };

  const create = (request: CreateTerminalRequest): string => {
    if (terminals.size >= maxTerminals)
      throw RequestError.invalidRequest(undefined, `Expected at most ${maxTerminals} terminals, release one first`);
    const command = [request.command, ...(request.args ?? [])];
    check({ tool: "shell", subjects: [{ kind: "shell", command: shellText(command) }] });
    const stop = new AbortController();
    const tail = createBoundedOutput(Math.min(request.outputByteLimit ?? terminalBytes, terminalBytes));
    const done = workspace.run({
      run: command.map(shellQuote).join(" "),
      cwd: request.cwd == null ? workspace.root : `${workspace.root}/${inside(request.cwd)}`,
      env: Object.fromEntries((request.env ?? []).map(({ name, value }) => [name, value])),
      timeoutMs: turn.limits.commandMaxSeconds * 1000,
      keepBytes: terminalBytes,
      signal: AbortSignal.any([stop.signal, turn.signal]),
      onOutput: (text) => tail.add(Buffer.from(text)),
    });
    const terminal: Terminal = { done, ran: undefined, tail, stop };
    done.then(
      (ran) => {
        terminal.ran = ran;
      },
      // A rejection is reported to the request that waits for the command's exit.
      () => {},
    );
    const id = `terminal-${(serial += 1)}`;
    terminals.set(id, terminal);
    return id;
  };

  return app
    .onRequest(methods.client.session.requestPermission, async ({ params }) => {
      const decision = await permissions.ask(await begin(params.toolCall), params.toolCall);
      const option = optionFor(params.options, decision);
      return { outcome: option === undefined ? { outcome: "cancelled" } : { outcome: "selected", optionId: option } };
    })
    .onRequest(methods.client.fs.readTextFile, async ({ params }) => {
      const path = inside(params.path);
      check({ tool: "read", subjects: [{ kind: "read", path }] });
      const { bytes } = await refusing(workspace.files.read(path, maxFile));
      const text = bytes.toString("utf8");
      if (params.line == null && params.limit == null) return { content: text };
      const from = Math.max(0, (params.line ?? 1) - 1);
      const lines = text.split("\n");
      return { content: lines.slice(from, params.limit == null ? undefined : from + params.limit).join("\n") };
    })
    .onRequest(methods.client.fs.writeTextFile, async ({ params }) => {
      if (params.content.length > maxFile)
        throw RequestError.invalidParams(undefined, `Expected at most ${maxFile} bytes, got ${params.content.length}`);
      const path = inside(params.path);
      check({ tool: "write", subjects: [{ kind: "write", path }] });
      await refusing(workspace.files.write(path, params.content));
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

/**
 * The id of the agent's option for a decision. "Once" is preferred to "always", so that the agent asks again for its
 * next call.
 */
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

const statusOf = ({ exitCode, ended }: CommandResult) =>
  exitCode === null ? { signal: ended === "exit" ? "unknown" : "SIGKILL" } : { exitCode };

/**
 * The command that the permission rules match: for `sh -c <script>` the script, otherwise the program with its
 * arguments.
 */
const shellText = ([program = "", ...args]: readonly string[]): string =>
  /(^|\/)(ba|da|z)?sh$/.test(program) && args.length === 2 && /^-l?c$/.test(args[0] ?? "")
    ? (args[1] ?? "")
    : [program, ...args].map(quotedWhereNeeded).join(" ");

const quotedWhereNeeded = (word: string): string => (/^[\w./:=@%+,-]+$/.test(word) ? word : shellQuote(word));
