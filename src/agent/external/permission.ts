import { isAbsolute, relative } from "node:path";
import type { RequestPermissionRequest } from "@agentclientprotocol/sdk";
import { timeouts } from "../../domain/session/ask.ts";
import { decide, type PermissionRequest, type PermissionSubject } from "../../domain/permission/rule.ts";
import { withBoundedNesting } from "../../json.ts";
import { hostOf } from "../permission/subject.ts";
import { WaitsForAnswer } from "../../tool/tool.ts";
import type { SessionContext } from "../session.ts";
import { checkPermission } from "../permission/permit.ts";

/**
 * Permission rules for an external agent. Its calls are mapped to those of the built-in tools: an edit to the files it
 * names, an execution to its command. While an ask is open, the agent waits and its process stays alive.
 */

const pollMs = 300;

type Asked = Pick<RequestPermissionRequest["toolCall"], "kind" | "title" | "rawInput" | "locations">;

export type ExternalPermissions = {
  /**
   * Decides about the call whose intent is recorded under `callID`. Resolves once a rule, an answer or the ask's
   * timeout has decided.
   */
  ask(callID: string, call: Asked): Promise<"allow" | "deny">;
  /**
   * For requests that the agent makes without asking for permission first. Returns the rule that denies the request, or
   * that requires an ask; undefined when it is allowed.
   */
  forbids(request: PermissionRequest): string | undefined;
};

export const createExternalPermissions = (turn: SessionContext, roots: readonly string[]): ExternalPermissions => {
  /** Calls that were allowed: requests that the agent makes while such a call is open count as part of it. */
  const granted = new Set<string>();
  return {
    async ask(callID, call) {
      const request = requestOf(call, roots);
      const text = () => JSON.stringify(withBoundedNesting(call.rawInput ?? call.title ?? ""));
      for (;;) {
        try {
          const refused = await checkPermission(turn, callID, request, text);
          if (refused === undefined) granted.add(callID);
          else await turn.record(refused.facts ?? []);
          return refused === undefined ? "allow" : "deny";
        } catch (error) {
          if (!(error instanceof WaitsForAnswer)) throw error;
        }
        await turn.sleep(pollMs, turn.signal);
        await turn.record([]);
        const over = timeouts(turn.state(), turn.now());
        if (over.length > 0) await turn.record(over, { decidedAt: turn.state().version });
      }
    },
    forbids(request) {
      const verdict = decide(turn.rules, request);
      if (verdict.decision === "allow") return undefined;
      const isPart = turn.state().open.some(({ callID }) => granted.has(callID));
      return verdict.decision === "ask" && isPart ? undefined : verdict.rule;
    },
  };
};

const requestOf = (call: Asked, roots: readonly string[]): PermissionRequest => {
  const input = typeof call.rawInput === "object" && call.rawInput !== null ? call.rawInput : {};
  const texts = (...names: string[]): string[] =>
    names
      .flatMap((name) => [(input as Record<string, unknown>)[name]].flat())
      .filter((value): value is string => typeof value === "string");
  const named = texts("path", "paths", "file_path", "filePath", "absolute_path", "notebook_path", "file", "files");
  const paths = [...new Set([...(call.locations ?? []).map(({ path }) => path), ...named])];
  const files = (kind: "read" | "write") =>
    paths.map((path): PermissionSubject => ({ kind, path: within(path, roots) }));
  switch (call.kind ?? "other") {
    case "read":
      return { tool: "read", subjects: files("read") };
    case "search":
      return { tool: "search", subjects: files("read") };
    case "edit":
    case "delete":
    case "move":
      return { tool: "edit", subjects: files("write") };
    case "execute": {
      const command = texts("command", "cmd").join(" ");
      return { tool: "shell", subjects: [{ kind: "shell", command: command === "" ? (call.title ?? "") : command }] };
    }
    case "fetch":
      return {
        tool: "web_fetch",
        subjects: texts("url").map((url): PermissionSubject => ({ kind: "web", host: hostOf(url) })),
      };
    case "think":
    case "switch_mode":
    case "other":
      return { tool: call.kind ?? "other", subjects: [{ kind: "other" }] };
  }
};

/**
 * A path relative to the root it is in, which is the form that rules match; a path outside of all roots is returned
 * unchanged.
 */
export const within = (path: string, roots: readonly string[]): string => {
  for (const root of roots) {
    const inner = relative(root, path);
    if (isAbsolute(path) && !inner.startsWith("..") && !isAbsolute(inner)) return inner;
  }
  return path;
};
