import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { processesOf } from "../../crash/process.ts";
import { git, makeProject, readText, until } from "../../harness/project.ts";
import { createTask, type Lab, makeLab, logOf, post, settledTask, shell } from "../../harness/double/hostile-text.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** A Task that starts a server in the background, asks it, and kills it; and what becomes of one that it forgets. */

let lab: Lab;
let service: TestService;
const data = () => join(lab.root, "data");
beforeAll(async () => {
  lab = await makeLab();
  service = await startService(data(), { SERVICE_CONFIG: lab.config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

const background = (command: string) => shell(command, { background: true });
const ask = (input: object) => ({ calls: [{ tool: "process", input }] });
const serve = `node -e 'require("http").createServer((_, r) => r.end("hello")).listen(0, "127.0.0.1", function () { require("fs").writeFileSync("port.txt", String(this.address().port)); console.log("listening"); })'`;
const get = `node -e 'fetch("http://127.0.0.1:" + require("fs").readFileSync("port.txt")).then(r => r.text()).then(t => console.log("got", t), e => { console.log("nobody there"); process.exit(1); })'`;

/** Outputs of the tools, in order, times and ids taken out. */
const outputsOf = async (taskID: string): Promise<string[]> =>
  (await logOf(service.url, taskID)).flatMap((frame) =>
    frame.type === "tool.finished"
      ? [
          JSON.stringify(frame.data.output)
            .replaceAll(/\d+\.\d s/g, "T")
            .replaceAll(/p\d+-/g, "pN-"),
        ]
      : [],
  );
/** The id of the first background command of the first run: its epoch is 1. */
const first = "p1-1";

describe("a server in the background", () => {
  test("is started, asked and killed; the Task lands without it", async () => {
    const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
    const taskID = await createTask(service.url, directory, {
      ...lab.request([
        background(serve),
        ask({ action: "read", id: first, seconds: 3 }),
        shell(get),
        ask({ action: "kill", id: first }),
        shell(`${get}; rm port.txt; echo done > made.txt`),
        { text: "Served and stopped." },
      ]),
      checks: [{ kind: "command", run: "test -f made.txt && ! test -e port.txt" }],
    });
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    const [started, read, got, killed, again] = await outputsOf(taskID);
    expect([started, read].join("\n")).toContain("listening");
    expect(got).toBe('"Exit code 0 after T.\\ngot hello"');
    expect(killed).toMatch(/^"pN-1 was killed after T\./);
    expect(again).toContain("nobody there");
    expect(readText(directory, "made.txt")).toBe("done\n");
  });

  test("one that is forgotten is ended before the tree is committed and the checks run; it writes no more", async () => {
    const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
    const taskID = await createTask(service.url, directory, {
      ...lab.request([background("while :; do date +%N > late.txt; sleep 0.01; done"), { text: "Forgot it." }]),
      checks: [
        {
          kind: "command",
          run: 'a=$(cat late.txt); sleep 0.2; test "$a" = "$(cat late.txt)"',
        },
      ],
    });
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    expect(git(directory, "show", "--format=", "--name-only", "HEAD")).toBe("late.txt");
  });

  test("a cancel ends it", async () => {
    const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
    const taskID = await createTask(service.url, directory, {
      ...lab.request([background("echo > begun; exec sleep 299"), shell("sleep 300")]),
      isolation: "directory",
    });
    const sleeping = () =>
      processesOf(data()).filter((pid) => {
        const file = `/proc/${pid}/cmdline`;
        return existsSync(file) && readText(file).split("\0").join(" ") === "sleep 299 ";
      });
    await until(
      () => Promise.resolve(existsSync(join(directory, "begun")) ? sleeping() : []),
      (pids) => pids.length === 1,
    );
    const cancelled = await post(service.url, `/task/${taskID}/cancel`, directory, {
      surface: "api",
      reason: "enough",
    });
    expect(cancelled.status).toBe(202);
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "cancelled" });
    await until(
      () => Promise.resolve(sleeping()),
      (pids) => pids.length === 0,
      5000,
    );
  });

  test("after a restart it is answered as ended, and the work goes on", async () => {
    const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
    const taskID = await createTask(service.url, directory, {
      ...lab.request([
        background("sleep 300"),
        { ...ask({ action: "read", id: first }), hold: true },
        { text: "It was gone." },
      ]),
    });
    await until(
      () => Promise.resolve(lab.provider.held()),
      (held) => held > 0,
    );
    await service.close();
    lab.provider.release();
    service = await startService(data(), { SERVICE_CONFIG: lab.config });
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    expect((await outputsOf(taskID))[1]).toMatch(/^"pN-1 ended when the service restarted/);
  });
});
