import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { silent } from "../../src/log.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { createBackground } from "../../src/tool/command/background.ts";
import { tools } from "../../src/tool/registry.ts";
import type { ToolContext, ToolResult } from "../../src/tool/tool.ts";
import { createProcesses } from "../../src/process/service.ts";
import { asBuffer } from "../../src/thread.ts";
import { createWorkspaces } from "../../src/workspace/service.ts";
import { callContext } from "../harness/project.ts";

/** Tools on real folders, with the real file access, Git and processes. */

export const makeToolLab = () => {
  const temp = realpathSync(mkdtempSync(join(tmpdir(), "sortie-tools-")));
  const processes = createProcesses({ folder: join(temp, "record"), keepEnv: process.env, log: silent });
  const workspaces = createWorkspaces({
    dataDir: join(temp, "data"),
    projectRoots: [],
    processes,
    limits: defaultLimits,
    log: silent,
  });
  let serial = 0;
  return {
    temp,
    processes,
    /** A folder with files, a Git project unless said otherwise, and a Task's context in it. */
    async open(files: Record<string, string | Buffer> = {}, { git = true, epoch = 1 } = {}) {
      const root = join(temp, `w${(serial += 1)}`);
      const put = (path: string, content: string | Buffer) => {
        mkdirSync(dirname(join(root, path)), { recursive: true });
        writeFileSync(join(root, path), content);
      };
      mkdirSync(root);
      for (const [path, content] of Object.entries(files)) put(path, content);
      const run = (...args: string[]) => execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: "pipe" });
      if (git) {
        run("init", "-q", "-b", "main");
        run("add", "-A");
        run("-c", "user.name=T", "-c", "user.email=t@t", "commit", "--allow-empty", "-qm", "state");
      }
      const taskID = `task_${serial}`;
      const workspace = await workspaces.prepare({ taskID, directory: root, isolation: "directory", landing: "none" });
      const outputs = new Map<string, Buffer>();
      let calls = 0;
      const context: ToolContext = {
        ...callContext,
        workspace,
        limits: { ...defaultLimits },
        signal: new AbortController().signal,
        kept: (callID) => Promise.resolve(outputs.get(callID)),
        background: createBackground(epoch),
        onOutput: () => undefined,
      };
      return {
        root,
        taskID,
        context,
        put,
        get: (path: string) => readFileSync(join(root, path), "utf8"),
        bytes: (path: string) => readFileSync(join(root, path)),
        there: (path: string) => existsSync(join(root, path)),
        /** As the agent loop calls it: arguments checked, a whole output kept under the call's id. */
        call: async (name: string, input: unknown, more: Partial<ToolContext> = {}): Promise<ToolResult> => {
          const tool = tools[name];
          if (tool === undefined) throw new Error(`no tool ${name}`);
          const parsed = tool.input.safeParse(input);
          if (!parsed.success) {
            const issues = parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
            return { outcome: "error", output: `invalid: ${issues.join("; ")}` };
          }
          const callID = `call_${(calls += 1)}`;
          const result = await tool.run(parsed.data, { ...context, callID, ...more });
          if (result.full !== undefined)
            outputs.set(callID, typeof result.full === "string" ? Buffer.from(result.full) : asBuffer(result.full));
          return result;
        },
      };
    },
    async [Symbol.asyncDispose]() {
      await processes.stop();
      rmSync(temp, { recursive: true, force: true });
    },
  };
};
