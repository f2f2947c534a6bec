import { readEnd } from "../../domain/task/commit-text.ts";
import { z } from "zod";
import { specsOf } from "../../domain/evidence/check.ts";
import type { FileDiff } from "../../domain/evidence/diff.ts";
import { aboutOf, type CheckSpec } from "../../protocol/check.ts";
import { wholeOf } from "../../store/blob/piece.ts";
import { filesIn } from "../../task/workspace/read-diff.ts";
import { failed, markForeign, maxOutput, ok, truncateMiddle } from "../../tool/result.ts";
import type { Tool } from "../../tool/tool.ts";
import type { MissionRun } from "../run.ts";
import { requireOwnTask, refusing } from "./watch-task.ts";

/** The tool by which the Mission's agent sees what a Task really achieved. */

const evidenceInput = z.strictObject({
  task: z.string(),
  part: z.enum(["outcome", "diff", "checks", "artifacts"]),
  file: z.string().optional().describe("Of diff: one path"),
  check: z.string().optional().describe("Of checks: the id of one, for its whole log"),
  artifact: z.string().optional().describe("Of artifacts: the id of one, for its text"),
});

export const evidenceTool = (run: MissionRun): Tool<z.infer<typeof evidenceInput>> => ({
  name: "task_evidence",
  description:
    "Shows what a Task came to: outcome (how it ended, all its last words), diff (a line for each file, or one file whole), checks (of a red one the last lines), artifacts (files kept beside the result).",
  input: evidenceInput,
  effect: "none",
  run: ({ task: taskID, part, file, check, artifact }) =>
    refusing(async () => {
      const task = await requireOwnTask(run, taskID);
      if ("outcome" in task) return task;
      const half = Math.floor(maxOutput * 0.9);
      const data = (text: string) =>
        ok(markForeign(`${taskID} ${part}`, truncateMiddle(text, "look at the project or the archive", half)));
      switch (part) {
        case "outcome": {
          const { lifecycleStatus, error, errorInfo, git, goals, usage, summary } = await run.tasks.status(taskID);
          const slices = goals.map(({ contract, settlement, review, evidence }) => ({
            title: contract.title,
            settled: settlement.state,
            review: review.verdict,
            notes: review.notes,
            contrast: evidence.find(({ kind, stale }) => kind === "contrast" && !stale)?.summary,
          }));
          return data(
            JSON.stringify(
              { lifecycleStatus, error, errorInfo, git, slices, usage, lastWords: readEnd(summary ?? "").report },
              null,
              1,
            ),
          );
        }
        case "diff": {
          const diff = await run.tasks.diff(taskID);
          if (diff === "") return ok("It changed no files.");
          if (file === undefined && diff.length <= shortDiff) return data(diff);
          const files = await filesIn(diff, run.signal);
          if (file === undefined) return data(files.map(fileLine).join("\n"));
          const found = files.find(({ path, from }) => path === file || from === file);
          return found === undefined
            ? failed(
                `Expected the path of a file that it changed, got ${JSON.stringify(file)}:\n${files.map(fileLine).join("\n")}`,
              )
            : data(`${found.head}${found.hunks.join("")}`);
        }
        case "checks": {
          if (check !== undefined)
            return data((await wholeOf(await run.tasks.checkLog(taskID, check))).toString("utf8"));
          const { checks } = await run.tasks.status(taskID);
          if (checks.length === 0) return ok("It had no checks.");
          const of = await run.store.state(taskID);
          const specs = new Map(of === undefined ? [] : specsOf(of).map((spec) => [spec.id, spec]));
          const shown = checks.map(async ({ id, name, required, origin, state, exitCode, stale }) => ({
            id,
            name,
            ...aboutCheck(specs.get(id)),
            required,
            origin,
            state,
            ...(of?.results[id]?.reason == null ? {} : { reason: of.results[id].reason }),
            exitCode,
            stale,
            ...(state === "failed" || state === "error" ? { lastLines: await lastLines(run, taskID, id) } : {}),
          }));
          return data(JSON.stringify(await Promise.all(shown), null, 1));
        }
        case "artifacts": {
          if (artifact !== undefined) {
            const { content, artifact: kept } = await run.tasks.artifact(taskID, artifact);
            const text = textIn(await wholeOf(content));
            return text === undefined
              ? failed(`Expected a text, ${artifact} is ${kept.mime} of ${kept.bytes} bytes. A Task can be given it.`)
              : data(text);
          }
          const { artifacts } = await run.tasks.board(taskID);
          return artifacts.length === 0
            ? ok("It kept no artifacts.")
            : data(
                JSON.stringify(
                  artifacts.map(({ artifactID, filename, title, mime, bytes }) => ({
                    artifactID,
                    filename,
                    title,
                    mime,
                    bytes,
                  })),
                  null,
                  1,
                ),
              );
        }
      }
    }),
});

/** A diff of up to this many characters is shown whole, and told with the Task's end. */
export const shortDiff = 4000;

const fileLine = ({ path, how, insertions, deletions, binary }: FileDiff): string =>
  `${how === "changed" ? "" : `${how} `}${path} ${binary ? "(binary)" : `+${insertions} -${deletions}`}`;

/** What a check examines, where its name does not say so. */
const aboutCheck = (spec: CheckSpec | undefined): { examines?: string } =>
  spec === undefined || aboutOf(spec) === spec.name ? {} : { examines: aboutOf(spec) };

const shownLines = 30;

const lastLines = async (run: MissionRun, taskID: string, checkID: string): Promise<string> =>
  (await wholeOf(await run.tasks.checkLog(taskID, checkID)))
    .toString("utf8")
    .trimEnd()
    .split("\n")
    .slice(-shownLines)
    .join("\n");

const textIn = (bytes: Buffer): string | undefined => {
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
};
