import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { findProgram } from "../../src/process/sandbox/sandbox.ts";
import { startProcess } from "../crash/process.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { git, makeProject, until } from "../harness/project.ts";
import { ended, place, send } from "./stage.ts";

/**
 * A node that is stopped past its lease in the middle of a landing, beside another node that works in the same
 * directory of this machine: the other waits for the lock that the stopped one holds, and when that wakes both have
 * landed, once and whole.
 */

const files = Object.fromEntries(Array.from({ length: 10 }, (_, at) => [`${"abcdefghij"[at]}.txt`, "one\n"]));

describe.skipIf(postgresURL === undefined)("a landing whose node is stopped", () => {
  test.each([
    ["before the new index is made", "update-index -z --add --replace --index-info", "before"],
    ["before the branch is moved", "sortie: land", "before"],
    ["when the branch has moved", "sortie: land", "after"],
  ])("%s: nobody lands beside it, and everything is there once", { timeout: 90_000 }, async (_name, words, when) => {
    await using here = await place();
    const bin = join(here.path, "bin");
    mkdirSync(bin);
    const [at, go] = [join(here.path, "at"), join(here.path, "go")];
    const real = findProgram("git", process.env["PATH"] ?? "");
    const hold = `touch '${at}'; while [ ! -e '${go}' ]; do sleep 0.05; done`;
    const script = `#!/bin/bash
case "$*" in *'${words}'*) if [ ! -e '${at}' ]; then
  ${when === "before" ? `${hold}; exec ${real} "$@"` : `${real} "$@"; status=$?; ${hold}; exit $status`}
fi;; esac
exec ${real} "$@"
`;
    writeFileSync(join(bin, "git"), script, { mode: 0o755 });
    const directory = makeProject(join(here.path, "p"), { "package.json": "{}", ...files });
    const begun = git(directory, "rev-parse", "HEAD").trim();
    await using b = await here.start("b");
    await using a = await startProcess({
      ...here.env("a"),
      SERVICE_DATA_DIR: join(here.path, "a"),
      HOME: here.path,
      PATH: `${bin}:${process.env["PATH"]}`,
    });
    const create = async (service: { url: string }, node: string, file: string) => {
      const response = await fetch(`${service.url}/task?directory=${encodeURIComponent(directory)}`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-service-node": node },
        body: JSON.stringify({ request: `Replace \`one\` with \`two\` in ${file}`, productPillar: "code" }),
      });
      const body = (await response.json()) as { taskID: string };
      expect([response.status, body]).toEqual([202, body]);
      return body.taskID;
    };
    const eventsOf = async (taskID: string) => {
      const { body } = await send(b, "GET", `/task/${taskID}/events?format=json&limit=1000`);
      return (body["events"] as { type: string }[]).map(({ type }) => type);
    };
    const first = await create(a, "a", "a.txt");
    await until(
      () => Promise.resolve(existsSync(at)),
      (there) => there,
    );
    a.child.kill("SIGSTOP");
    let second: string;
    try {
      await here.sql(`update nodes set seen = seen - 60000 where name = 'a';
                      update streams set lease_until = 0 where holder is not null`);
      second = await create(b, "b", "b.txt");
      await until(
        () => eventsOf(second),
        (types) => types.includes("tree.committed"),
      );
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      // Neither the other node nor the user does anything beside it.
      expect(await eventsOf(second)).not.toContain("landing.finished");
      writeFileSync(join(directory, "j.txt"), "the user's\n");
      expect(spawnSync("git", ["add", "j.txt"], { cwd: directory }).status).toBe(128);
      writeFileSync(go, "");
      await new Promise((resolve) => setTimeout(resolve, 300));
    } finally {
      writeFileSync(go, "");
      a.child.kill("SIGCONT");
    }
    for (const taskID of [first, second])
      expect((await ended(b, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    const trailers = git(directory, "log", "--format=%(trailers:key=Task,valueonly)", `${begun}..HEAD`);
    expect(
      trailers
        .split("\n")
        .filter((line) => line !== "")
        .toSorted(),
    ).toEqual([first, second].toSorted());
    expect(git(directory, "ls-files").trim().split("\n")).toHaveLength(11);
    expect(git(directory, "status", "--porcelain").trim()).toBe("M j.txt");
    for (const [file, text] of [
      ["a.txt", "two"],
      ["b.txt", "two"],
      ["c.txt", "one"],
    ] as const)
      expect(git(directory, "show", `HEAD:${file}`).trim()).toBe(text);
    for (const once of ["landing.finished", "task.settled"])
      for (const taskID of [first, second])
        expect([once, (await eventsOf(taskID)).filter((type) => type === once).length]).toEqual([once, 1]);
    git(directory, "fsck", "--strict");
  });
});
if (postgresURL === undefined) countSkipped(3);
