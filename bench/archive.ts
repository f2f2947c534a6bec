import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { makeProject } from "../test/harness/project.ts";
import { createCaller, drain } from "./client.ts";
import { type Figure, inTurns } from "./figure.ts";
import { rowOf } from "./table.ts";

/** Text that compresses about as well as source code does. */
const textOf = (bytes: number): string => {
  const words = Array.from({ length: 400 }, () => randomBytes(3 + Math.floor(Math.random() * 5)).toString("hex"));
  let text = "";
  while (text.length < bytes) {
    const line = Array.from({ length: 8 }, () => words[Math.floor(Math.random() * words.length)]);
    text += `  const ${line.join(" ")};\n`;
  }
  return text.slice(0, bytes);
};

/** Project bytes per second into a ZIP, against git's own at the same level. */
export const archive: Figure = async (bench) => {
  const megabytes = bench.quick ? 3 : 30;
  const files = Object.fromEntries(
    Array.from({ length: megabytes * 50 }, (_, index) => [`src/${index % 40}/file-${index}.ts`, textOf(20_000)]),
  );
  const repository = makeProject(join(bench.root, "projects/archive"), files);
  await using service = await bench.service("archive");
  using caller = await createCaller(service.url);
  const task = await caller.create(repository, `bench shell 1 ${bench.id("archive")}`);
  await caller.settled(task);

  const timed = async (work: () => Promise<unknown>): Promise<number> => {
    const begun = performance.now();
    await work();
    return (1000 * megabytes) / (performance.now() - begun);
  };
  const byGit = () =>
    timed(() => {
      const args = ["archive", "--format=zip", "-6", "HEAD"];
      const child = spawn("git", args, { cwd: repository, stdio: ["ignore", "pipe", "inherit"] });
      return pipeline(child.stdout, createWriteStream(join(bench.root, "git.zip")));
    });
  const own = () =>
    timed(() => drain(`${service.url}/task/${task}/project-archive?directory=${encodeURIComponent(repository)}`));
  await own();
  const rounds = await inTurns(bench.quick ? 1 : 5, byGit, own);
  return [
    rowOf(`archive of ${megabytes} MB`, "MB/s", rounds, {
      goal: { kind: "timesFloorAtLeast", value: 1 },
      note: "floor: git archive --format=zip -6",
    }),
  ];
};
