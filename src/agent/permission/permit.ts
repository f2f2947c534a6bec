import type { DomainEvent } from "../../domain/event.ts";
import { decide, type PermissionRequest, type PermissionRules } from "../../domain/permission/rule.ts";
import type { EventData } from "../../protocol/event/event.ts";
import { hostOf, subjectsOf } from "./subject.ts";
import type { Tool, ToolResult } from "../../tool/tool.ts";
import { type Files, FileRefused } from "../../workspace/file/files.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { ask } from "./ask.ts";
import type { SessionContext, AgentSession } from "../session.ts";

/**
 * The one place where permission rules are applied to calls, before they have any effect. Every decision is recorded,
 * except an allow that no rule made.
 */

type Decided = EventData["permission.decided"];

/** The question, in Markdown: a command or path is shown as code, whatever characters it contains. */
const asking = (tool: string, subject: string): string => {
  const mark = "`".repeat(1 + Math.max(0, ...(subject.match(/`+/g) ?? []).map(({ length }) => length)));
  const pad = /^`|`$/.test(subject) ? " " : "";
  const of = `${mark}${pad}${subject}${pad}${mark}`;
  if (subject === "") return `Allow the agent to use ${tool}?`;
  if (tool === "shell") return `Allow the agent to run ${of}?`;
  if (tool === "git") return `Allow the agent to run git ${of}?`;
  if (tool === "web_fetch") return `Allow the agent to fetch from ${of}?`;
  if (tool === "read" || tool === "write" || tool === "edit") return `Allow the agent to ${tool} ${of}?`;
  return `Allow the agent to use ${tool} with ${of}?`;
};

/** Decides about a call of a built-in tool; resolves and rejects as `checkPermission` does. */
export const permit = (
  session: AgentSession,
  callID: string,
  tool: Tool,
  input: unknown,
  inside: Files["inside"],
): Promise<ToolResult | undefined> =>
  checkPermission(session, callID, { tool: tool.name, subjects: subjectsOf(tool, input, inside) }, () =>
    JSON.stringify(input),
  );

/**
 * Resolves to undefined when the call may run, otherwise to the refusal that the model reads. Rejects with
 * `WaitsForAnswer` while an ask is open. `text` returns the arguments, which are searched for secrets.
 */
export const checkPermission = async (
  session: SessionContext,
  callID: string,
  request: PermissionRequest,
  text: () => string,
): Promise<ToolResult | undefined> => {
  const { tool } = request;
  const verdict = decide(session.rules, request);
  // An ask may have been opened under rules that have changed since: its answer still counts, unless the new rules deny
  // the call.
  const wasAsked = session.state().asks.some((open) => open.callID === callID && open.kind === "permission");
  if (verdict.rule === null && !wasAsked) return undefined;
  const { rule, origin, subject } =
    verdict.rule === null ? { rule: "a rule of before", origin: "operator" as const, subject: "" } : verdict;
  const decided = (decision: Decided["decision"], by: Decided["by"]): DomainEvent => ({
    type: "permission.decided",
    data: { callID, sessionID: session.sessionID, tool, subject, decision, rule, origin, by },
  });
  const denied = (output: string, by: Decided["by"]): ToolResult => ({
    outcome: "error",
    output,
    facts: [decided("deny", by)],
  });
  const what = subject === "" ? tool : `${tool} ${subject}`;

  if (verdict.decision === "deny")
    return denied(
      `Denied: ${what}. ${whose[origin]} forbids it (${rule}). Nothing was done. Do not look for a way around it: do the rest without it, and say in your last message what is left and why.`,
      "rule",
    );
  if (verdict.decision === "allow" && !wasAsked) {
    await session.record([decided("allow", "rule")]);
    return undefined;
  }
  if (!wasAsked && holdsSecret(session, text()))
    return denied(
      `This needs permission (${rule}), and its arguments hold a secret, which is not kept while a call waits. Nothing was done. Make the call again without the secret.`,
      "rule",
    );
  const question = {
    kind: "permission" as const,
    prompt: asking(tool, subject),
    options: ["allow", "deny"],
    default: "deny",
  };
  const answer = await ask(session, callID, question, [decided("ask", "rule")]);
  if ("refused" in answer) return denied(answer.refused, "rule");
  if (answer.decision === "allow") {
    // Record the permission before the effect, so that a call that was started is never started again.
    await session.record([decided("allow", answer.by)]);
    return undefined;
  }
  if (answer.by === "ended")
    return denied(
      `Denied: ${what}. The question was closed before anybody had decided (${rule}). Nothing was done. If what is asked for now still needs it, make the call again.`,
      answer.by,
    );
  const why = { caller: "The user denied it", timeout: "Nobody gave permission in time" };
  return denied(
    `Denied: ${what}. ${why[answer.by]} (${rule}). Nothing was done. Do not try the same again; go on without it, or say in your last message what is left and why.`,
    answer.by,
  );
};

const holdsSecret = ({ store }: SessionContext, text: string): boolean => store.redact(text) !== text;

const whose = {
  operator: "A rule of the operator",
  project: "A rule of the project",
  default: "A rule of the service",
};

/** Web access under the permission rules: the target of a redirect needs the same permission as the first address. */
export const restrictWeb = (
  { web, rules }: Pick<AgentSession, "web" | "rules">,
  tool: Tool,
  input: unknown,
): AgentSession["web"] => {
  if (web === undefined) return undefined;
  // Hosts that the call names were already decided on (or asked about) with the call.
  const named = new Set(subjectsOf(tool, input, (path) => path).flatMap((one) => ("host" in one ? [one.host] : [])));
  return {
    ...web,
    against(url) {
      const host = hostOf(url.href);
      const verdict = named.has(host)
        ? undefined
        : decide(rules, { tool: tool.name, subjects: [{ kind: "web", host }] });
      return verdict === undefined || verdict.decision === "allow" ? undefined : verdict.rule;
    },
  };
};

/**
 * A workspace whose files are checked against the rules one by one, including files that a tool finds itself (search,
 * mv, rm).
 */
export const restrictFiles = (session: AgentSession, workspace: Workspace, tool: Tool, input: unknown): Workspace => {
  if (!session.rules.some(isAboutFiles)) return workspace;
  // Paths that the call names were already decided on with the call; a permission given by a person covers exactly
  // those.
  const named = new Set(
    subjectsOf(tool, input, workspace.files.inside).flatMap((subject) => ("path" in subject ? [subject.path] : [])),
  );
  return { ...workspace, files: guarded(workspace.files, session.rules, tool.name, named) };
};

const isAboutFiles = ({ decision, rule }: PermissionRules[number]): boolean =>
  decision !== "allow" && rule.name !== "shell" && rule.name !== "git" && rule.name !== "ask";

const guarded = (files: Files, rules: PermissionRules, tool: string, named: ReadonlySet<string>): Files => {
  const nameOf = (path: string) =>
    files
      .inside(path)
      .split("/")
      .filter((part) => part !== "" && part !== ".")
      .join("/");
  /** The rule that forbids access to the file, or requires an ask; undefined when access is allowed. */
  const against = (kind: "read" | "write", name: string): string | undefined => {
    if (named.has(name)) return undefined;
    const verdict = decide(rules, { tool, subjects: [{ kind, path: name }] });
    return verdict.decision === "allow" ? undefined : verdict.rule;
  };
  const check = (kind: "read" | "write", path: string) => {
    const name = nameOf(path);
    const rule = against(kind, name);
    if (rule !== undefined)
      throw new FileRefused(
        "protected",
        `Expected a file that may be ${kind === "read" ? "read" : "changed"}, got "${name}" (rule ${rule})`,
      );
  };
  // The default rules are about writing only, so with them a search need not check each file.
  const reads = rules.some((one) => isAboutFiles(one) && one.rule.name !== "write");
  return {
    ...files,
    ...(reads && {
      mayRead: (path) => files.mayRead(path) && against("read", nameOf(path)) === undefined,
      async read(path, maxBytes) {
        check("read", path);
        return files.read(path, maxBytes);
      },
    }),
    mayWrite: (path) => files.mayWrite(path) && against("write", nameOf(path)) === undefined,
    async write(path, bytes, options) {
      check("write", path);
      return files.write(path, bytes, options);
    },
    async remove(path) {
      check("write", path);
      return files.remove(path);
    },
  };
};
