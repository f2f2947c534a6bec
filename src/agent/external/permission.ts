import { isAbsolute, relative } from "node:path";
import type { RequestPermissionRequest } from "@agentclientprotocol/sdk";
import { timeouts } from "../../domain/session/ask.ts";
import { decide, type PermissionRequest, type PermissionSubject } from "../../domain/permission/rule.ts";
import { hostOf } from "../permission/subject.ts";
import { WaitsForAnswer } from "../../tool/tool.ts";
import type { SessionContext } from "../session.ts";
import { checkPermission } from "../permission/permit.ts";

/**
 * The rules, asked by an external agent. Its calls are seen as those of our tools: an edit is about the files it
 * names, an execution about its command. While somebody is asked, the agent waits with its process.
 */

const pollMs = 300;

type Asked = Pick<RequestPermissionRequest["toolCall"], "kind" | "title" | "rawInput" | "locations">;

export type ExternalPermissions = {
  /** For a call whose intent is on record under this id. */
  ask(callID: string, call: Asked): Promise<"allow" | "deny">;
  /** For what the agent has done by us without a word before; the rule that forbids it, or wants to be asked. */
  forbids(request: PermissionRequest): string | undefined;
};

export const createExternalPermissions = (turn: SessionContext, roots: readonly string[]): ExternalPermissions => {
  /** Calls that somebody allowed: what the agent has done by us meanwhile is part of them. */
  const granted = new Set<string>();
  return {
    async ask(callID, call) {
      const request = requestOf(call, roots);
      const text = JSON.stringify(call.rawInput ?? call.title ?? "");
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
        if (over.length > 0) await turn.record(over, turn.state().version);
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

/** A path as the rules name it; one outside of the project stays as it is. */
export const within = (path: string, roots: readonly string[]): string => {
  for (const root of roots) {
    const inner = relative(root, path);
    if (isAbsolute(path) && !inner.startsWith("..") && !isAbsolute(inner)) return inner;
  }
  return path;
};
