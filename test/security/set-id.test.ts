import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTask, makeLab, post, settledTask, shell } from "../harness/double/hostile-text.ts";
import { makeProject, writeFiles } from "../harness/project.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";
import { startService, type TestService } from "../harness/service.ts";

/** What a Task leaves in the user's directory does not run as the service's user, whoever starts it. */

const bits = (path: string): string => (statSync(path).mode & 0o7777).toString(8);

/** Files with set-user-ID or set-group-ID, however a command makes them. */
const commands: Record<string, string> = {
  "a program": "cp /bin/true b; chmod 6755 b",
  "one that nobody may read": "cp /bin/true b; chmod 6111 b",
  "by a mask": "cp /bin/true b; chmod u+s,g+s b",
  "set-group-ID alone": "cp /bin/true b; chmod 2755 b",
  "one in a folder that git ignores":
    "mkdir -p node_modules/.bin; cp /bin/true node_modules/.bin/b; chmod 4755 node_modules/.bin/b",
  "one with two names": "cp /bin/true b; chmod 4755 b; mkdir d; ln b d/c",
  "one by an archive": "cp /bin/true b; chmod 4755 b; tar cpf t.tar b; rm b; tar xpf t.tar",
  "one by a copy of its mode": "cp /bin/true b; chmod 4755 b; cp -p b c; rm b",
  "one by install": "install -m 4755 /bin/true b",
  "one that a process in the background makes": "(sleep 0.2; cp /bin/true b; chmod 4755 b) & sleep 0.5",
  "one with an odd name": "cp /bin/true $'b\\n -x\\xff'; chmod 4755 b*",
  many: "cp /bin/true b; chmod 4755 b; for i in $(seq 500); do ln b $(printf %0200d $i); done",
};

const left = (directory: string): string =>
  execFileSync("find", [directory, "-type", "f", "(", "-perm", "-4000", "-o", "-perm", "-2000", ")"], {
    encoding: "latin1",
  });

describe("set-ID in place", { timeout: 60_000 }, () => {
  let lab: Awaited<ReturnType<typeof makeLab>>;
  let service: TestService;
  beforeAll(async () => {
    lab = await makeLab({}, 3);
    service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
  });
  afterAll(async () => {
    await service.close();
    await lab[Symbol.asyncDispose]();
  });
  const run = async (directory: string, command: string) => {
    const body = { ...lab.request([shell(command), { text: "Done." }]), isolation: "directory" };
    const id = await createTask(service.url, directory, body);
    return settledTask(service.url, id);
  };

  test.each(Object.entries(commands))(
    "%s: gone when the Task has ended, control: a command leaves it",
    async (_name, command) => {
      const control = makeProject(lab.folder(), { "a.txt": "a" });
      execFileSync("bash", ["-c", command], { cwd: control, stdio: "ignore" });
      expect(left(control)).not.toBe("");
      const directory = makeProject(lab.folder(), { "a.txt": "a" });
      expect((await run(directory, command)).lifecycleStatus).toBe("completed");
      expect(left(directory)).toBe("");
    },
  );

  test("what was so before, a folder's set-group-ID, and a file with names elsewhere stay", async () => {
    const directory = lab.folder();
    const outside = lab.folder("outside");
    mkdirSync(directory);
    mkdirSync(outside);
    writeFiles(directory, { mine: "mine" });
    writeFileSync(join(outside, "theirs"), "theirs");
    for (const path of [join(directory, "mine"), join(outside, "theirs")]) chmodSync(path, 0o4755);
    await new Promise((resolve) => setTimeout(resolve, 2500));
    const command = `mkdir shared; chmod 2775 shared; ln ${outside}/theirs linked; cp /bin/true b; chmod 4755 b`;
    expect((await run(directory, command)).lifecycleStatus).toBe("completed");
    expect([bits(join(directory, "mine")), bits(join(directory, "shared")), bits(join(outside, "theirs"))]).toEqual([
      "4755",
      "2775",
      "4755",
    ]);
    expect([bits(join(directory, "linked")), bits(join(directory, "b"))]).toEqual(["755", "755"]);
    expect(readFileSync(join(directory, "linked"), "utf8")).toBe("theirs");
  });

  test("of a Task that is cancelled, too", async () => {
    const directory = makeProject(lab.folder(), { "a.txt": "a" });
    const command = "cp /bin/true b; chmod 6755 b; touch made; sleep 30";
    const body = { ...lab.request([shell(command)]), isolation: "directory" };
    const id = await createTask(service.url, directory, body);
    for (;;) {
      try {
        statSync(join(directory, "made"));
        break;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
    await post(service.url, `/task/${id}/cancel`, directory, {});
    expect((await settledTask(service.url, id)).lifecycleStatus).toBe("cancelled");
    expect(left(directory)).toBe("");
  });
});

const here = (await sandboxesHere()).some(({ tier }) => tier === 1);

describe.runIf(here)("set-ID in place, where the kernel refuses it", { timeout: 60_000 }, () => {
  const mark = "find . -type f -perm /6000 | grep -q . && touch was-there";
  const run = async (tier?: 3) => {
    await using lab = await makeLab({}, tier);
    await using service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
    const directory = makeProject(lab.folder(), { "a.txt": "a" });
    const calls = Object.values(commands).map((command, at) =>
      shell(`mkdir f${at} && cd f${at} && (${command}); cd .. ; ${mark}`),
    );
    const body = { ...lab.request([...calls, { text: "Done." }]), isolation: "directory" };
    expect(await settledTask(service.url, await createTask(service.url, directory, body))).toMatchObject({
      lifecycleStatus: "completed",
      sandbox: { tier: tier ?? 1 },
    });
    return { left: left(directory), was: existsSync(join(directory, "was-there")) };
  };

  test("no such file is there at any time; control: without the filter it is until the end", async () => {
    expect(await run()).toEqual({ left: "", was: false });
    expect(await run(3)).toEqual({ left: "", was: true });
  });
});
