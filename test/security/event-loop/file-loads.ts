import { truncateSync } from "node:fs";
import { join } from "node:path";
import { at } from "../../harness/double/hostile-text.ts";
import { git } from "../../harness/project.ts";
import { type Load, mib, projectOf, put, putMany } from "./load.ts";
import type { Stage } from "./stage.ts";

/** The rows of `limits` that say how many files of a project there may be, and of which size. */

const sparse = (folder: string, path: string, bytes: number): void => {
  put(folder, path, "");
  truncateSync(join(folder, path), bytes);
};

const list = { tool: "list", input: {} };

const archive = async (stage: Stage, taskID: string, directory: string): Promise<void> => {
  const response = await fetch(`${stage.url}${at(`/task/${taskID}/project-archive`, directory)}`);
  for await (const _ of response.body ?? []);
};

export const fileLoads: readonly Load[] = [
  {
    name: "snapshot: 20,000 untracked files, one of 50 MiB, and as many bytes as a Task may see",
    drives: ["snapshotFiles", "snapshotBytes", "snapshotFileBytes"],
    async run(stage) {
      const many = projectOf(stage, { "a.txt": "a" }, (folder) => putMany(folder, 20_000));
      const large = projectOf(stage, { "a.txt": "a" }, (folder) => {
        for (let n = 0; n < 11; n += 1) sparse(folder, `${n}.bin`, 50 * mib - n);
        sparse(folder, "more.bin", 50 * mib + 1);
      });
      const flat = projectOf(stage, { "a.txt": "a" }, (folder) => putMany(folder, 21_000));
      for (const directory of [many, large, flat]) await stage.task(directory, [list]);
    },
  },
  {
    name: "dependencies: a folder as large as is copied, and one of more files",
    drives: ["dependencyFiles", "dependencyBytes"],
    config: { sandbox: { tier: 3 } },
    async run(stage) {
      const withModules = (count: number) =>
        projectOf(stage, { "package.json": "{}", ".gitignore": "node_modules\n" }, (folder) => {
          putMany(join(folder, "node_modules"), count);
          sparse(folder, "node_modules/large.bin", 199 * mib);
        });
      for (const directory of [withModules(19_900), withModules(30_000)])
        await stage.task(directory, [{ tool: "shell", input: { command: "ls node_modules | wc -l" } }]);
    },
  },
  {
    name: "archive: one file more than is taken of 20,000, the largest and one that is larger, three at once",
    drives: ["archives", "archiveFiles", "archiveFileBytes"],
    // A fifth of what they are without configuration, as a hundred thousand files take Git minutes.
    config: { limits: { archiveFiles: 20_000, archiveFileBytes: 100 * mib } },
    async run(stage) {
      const directory = projectOf(stage, {}, (folder) => {
        putMany(folder, 20_001);
        sparse(folder, "large.bin", 100 * mib);
        sparse(folder, "larger.bin", 100 * mib + 1);
        git(folder, "add", "-A");
        git(folder, "commit", "-q", "-m", "more");
      });
      const taskID = await stage.task(directory, [list], { isolation: "directory" });
      await Promise.all([1, 2, 3].map(() => archive(stage, taskID, directory)));
    },
  },
];
