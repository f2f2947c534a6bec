import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { silent } from "../../src/log.ts";
import type { Command } from "../../src/process/process.ts";
import { createProcesses, type ProcessOptions } from "../../src/process/service.ts";
import { removeTree } from "../../src/workspace/file/remove-tree.ts";
import { inspectImage } from "../../src/process/image/engine.ts";
import { imageMounts, inImage } from "../../src/process/sandbox/image-root.ts";
import type { Mount } from "../../src/process/sandbox/place.ts";
import { imageID, makeEngine, makeRoot, reference } from "../harness/image.ts";
import { temporary, writeFiles } from "../harness/project.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";

/** Commands in an image: its files come from an engine, once, and it is tier 1 over them. */

const tier1 = (await sandboxesHere()).find(({ tier }) => tier === 1);
const path = process.env["PATH"] ?? "";
const signal = new AbortController().signal;

const lab = (options: Partial<ProcessOptions> & { more?: string; files?: Record<string, string> } = {}) => {
  const folder = temporary("sortie-image-");
  const { more, files, ...rest } = options;
  const root = join(folder.path, "image");
  makeRoot(root, files);
  const engine = makeEngine(folder.path, root, more);
  const make = () => {
    const processes = createProcesses({
      folder: join(folder.path, "data/processes"),
      runID: join(folder.path, "data"),
      // The engine is the first that is found, and the machine's own docker no second one.
      keepEnv: { ...process.env, DOCKER_HOST: "unix:///nowhere", PATH: `${engine.bin}:${path}` },
      ...(tier1 === undefined ? {} : { sandbox: tier1 }),
      images: { removeTree },
      log: silent,
      ...rest,
    });
    onTestFinished(() => processes.stop());
    return processes;
  };
  onTestFinished(() => folder[Symbol.dispose]());
  const processes = make();
  const tree = join(folder.path, "tree");
  mkdirSync(tree);
  const place = { tree, at: "/home/user/project", under: () => [], over: () => [] };
  const run = async (command: string, more: Partial<Command> = {}, by = processes) =>
    by.run("task_1", { run: command, cwd: tree, timeoutMs: 30_000, keepBytes: 100_000, signal, ...more }, place);
  return { folder: folder.path, data: join(folder.path, "data"), processes, make, engine, tree, run };
};

const given = async (at: ReturnType<typeof lab>, by = at.processes) =>
  by.setEnvironment("task_1", {
    variables: { WORD: "blue" },
    network: undefined,
    paths: [],
    image: await by.openImage(reference),
  });

describe.runIf(tier1 !== undefined)("in tier 1", () => {
  test("commands have the image's files and variables, the Task's tree, and nothing of the machine's; its own programs have the machine's", async () => {
    const at = lab();
    writeFileSync(join(at.tree, "a.txt"), "a\n");
    await given(at);
    const ran = await at.run(
      "cat /etc/os-release a.txt; tool; echo $FLAVOUR $WORD $HOME $LD_PRELOAD; pwd; echo b > b.txt",
    );
    expect(ran.output).toBe("ID=small\na\nthe tool of the image\nvanilla blue /tmp\n/home/user/project\n");
    expect(readFileSync(join(at.tree, "b.txt"), "utf8")).toBe("b\n");
    const own = await at.run("cat /etc/os-release; echo $FLAVOUR", { own: true });
    expect(own.output).toBe(`${readFileSync("/etc/os-release", "utf8")}\n`);
    expect((await at.run("cat /etc/os-release")).output).toBe("ID=small\n");
    // The machine's, and what is the service's of the image.
    const paths = [
      join(at.folder, "data"),
      join(at.data, "images"),
      "/usr/share",
      "/etc/ssl",
      "/etc/shadow",
      "/var/log",
    ];
    expect((await at.run(`ls -d ${paths.join(" ")} 2>/dev/null`)).output).toBe("");
    const written =
      "for at in / /usr/bin /etc /opt/tool /home /home/user; do : 2>/dev/null >$at/x && echo $at; done; echo";
    expect((await at.run(`${written}; : >/tmp/x && echo tmp`)).output).toBe("\ntmp\n");
    // Another Task, the control, is on this machine.
    const other = await at.processes.run(
      "task_2",
      { run: "cat /etc/os-release", cwd: at.tree, timeoutMs: 30_000, keepBytes: 10_000, signal },
      { tree: at.tree, at: at.tree, under: () => [], over: () => [] },
    );
    expect(other.output).toBe(readFileSync("/etc/os-release", "utf8"));
  });

  test("the rights, names and network of tier 1 hold in it", async () => {
    const at = lab();
    await given(at);
    const { output } = await at.run(
      "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\\t' ' '; ls /sys/class/net 2>/dev/null; grep -c : /proc/net/dev; id -un; stat -c %a /usr/bin/as-owner; chmod 4755 x 2>/dev/null; unshare --user true 2>/dev/null && echo user",
    );
    expect(output).toMatch(/^CapEff: 0+\nCapBnd: 0+\nNoNewPrivs: 1\nSeccomp: 2\n1\n[a-z]+\n755\n$/);
    // Its link to a file outside has become a file of its own, and a name is there for the service's user.
    expect((await at.run("test -L /etc/resolv.conf || echo no link")).output).toBe("no link\n");
  });

  test("the engine is asked for the files once, and no container runs; a second service of the data folder has them", async () => {
    const at = lab();
    await Promise.all([given(at), given(at), at.processes.openImage(reference)]);
    await at.processes.openImage(reference);
    const later = at.make();
    await later.openImage(reference);
    const asked = at.engine.asked().map((line) => (line.split(" ")[0] === "image" ? line : line.split(" ")[0]));
    expect(asked.filter((line) => line === "export")).toHaveLength(1);
    expect(asked).not.toContain("run");
    expect(asked).not.toContain("start");
    expect(readdirSync(join(at.data, "images"))).toEqual([imageID]);
    expect(readdirSync(join(at.data, "images", imageID)).toSorted()).toEqual(["bash", "ready.json", "root"]);
    expect(statSync(join(at.data, "images", imageID, "bash")).mode & 0o777).toBe(0o111);
  });

  test("what a killed service left half unpacked is made anew, and one that nobody used for a month goes", async () => {
    const at = lab();
    const old = join(at.data, "images", "4".repeat(64));
    writeFiles(join(at.data, "images"), { [`${imageID}.part/root/etc/os-release`]: "ID=half\n" });
    writeFiles(old, { "ready.json": "{}", "root/etc/x": "x" });
    const kept = join(at.data, "images", "3".repeat(64));
    writeFiles(kept, { "ready.json": "{}" });
    const then = new Date(Date.now() - 31 * 24 * 3_600_000);
    utimesSync(join(old, "ready.json"), then, then);
    await given(at);
    expect((await at.run("cat /etc/os-release")).output).toBe("ID=small\n");
    expect([existsSync(old), existsSync(kept)]).toEqual([false, true]);
    expect(at.engine.asked().filter((line) => line.startsWith("rm --force sortie-"))).toHaveLength(2);
  });

  test.each<[string, Parameters<typeof lab>[0], string, RegExp]>([
    [
      "no such image",
      {},
      "localhost/other:1",
      /no image localhost\/other:1 on this machine: .*podman pull localhost\/other:1/,
    ],
    [
      "an engine that does not answer",
      { more: "echo 'cannot connect' >&2; exit 1" },
      reference,
      /podman does not answer \(cannot connect\).*Install podman/,
    ],
    [
      "an export that breaks",
      { more: '[ "$1" != export ] || { echo "disk I/O" >&2; exit 125; }' },
      reference,
      /small:1 cannot be used: .*podman export: disk I\/O/,
    ],
    ["no tar", { more: '[ "$1" != export ] || { echo nonsense > "$3"; exit 0; }' }, reference, /could not be unpacked/],
    [
      "containers are off",
      { images: undefined },
      reference,
      /sandbox\.containers in the configuration is not "experimental"/,
    ],
  ])("%s: refused with the reason, and nothing stays", async (_name, options, wanted, why) => {
    const at = lab(options);
    await expect(at.processes.openImage(wanted)).rejects.toThrow(why);
    expect(existsSync(join(at.data, "images")) ? readdirSync(join(at.data, "images")) : []).toEqual([]);
  });

  test("without bash it is refused", async () => {
    const at = lab({
      more: `[ "$1" != export ] || { cd "$(dirname "$3")"; mkdir e e/etc; tar -C e -cf "$3" .; rm -r e; exit 0; }`,
    });
    await expect(at.processes.openImage(reference)).rejects.toThrow(/it has no bash/);
  });

  test("folders deeper than a path is long go with an image that is old, or half unpacked", async () => {
    const at = lab();
    const [old, half] = ["4".repeat(64), `${imageID}.part`].map((name) => join(at.data, "images", name));
    for (const folder of [old, half]) {
      mkdirSync(folder ?? "", { recursive: true });
      execFileSync("bash", ["-c", "mkdir -p $(printf 'd/%.0s' $(seq 2040))"], { cwd: folder });
    }
    // Control: by their paths they cannot be removed.
    await expect(rm(old ?? "", { recursive: true })).rejects.toThrow("ENAMETOOLONG");
    writeFiles(old ?? "", { "ready.json": "{}" });
    const then = new Date(Date.now() - 31 * 24 * 3_600_000);
    utimesSync(join(old ?? "", "ready.json"), then, then);
    await at.processes.openImage(reference);
    expect(readdirSync(join(at.data, "images"))).toEqual([imageID]);
  });

  test("a named pipe in the place of its bash is refused, and nobody waits for it", async () => {
    const at = lab();
    const own = join(at.folder, "image/usr/bin/bash");
    rmSync(own);
    execFileSync("mkfifo", [own]);
    execFileSync("tar", ["-C", join(at.folder, "image"), "-cf", join(at.folder, "image.tar"), "."]);
    await expect(at.processes.openImage(reference)).rejects.toThrow("its /bin/bash is no program of at most 64 MiB");
    expect(readdirSync(join(at.data, "images"))).toEqual([]);
  });

  test("a program is looked for in the image, where there is one", async () => {
    const at = lab();
    await given(at);
    const found = ["tool", "git"].map((name) => [
      at.processes.finds("task_1", name),
      at.processes.finds("task_2", name),
    ]);
    expect(found).toEqual([
      [true, false],
      [false, true],
    ]);
  });
});

test("a list of hosts, tier 3 and images: what cannot be had is said", async () => {
  const { processGroupSandbox } = await import("../../src/process/sandbox/sandbox.ts");
  const at = lab({ sandbox: processGroupSandbox });
  await expect(at.processes.openImage(reference)).rejects.toThrow(/takes bubblewrap \(tier 1\), and this is tier 3/);
});

test("mounts go around what is mounted over them, and no link of the image leads out of it", () => {
  using folder = temporary();
  const { path: root } = folder;
  writeFiles(root, {
    "usr/bin/x": "",
    "usr/src/app/y": "",
    "usr/src/z": "",
    "home/me/.bashrc": "",
    "var/lib/w": "",
    "var/tmp/v": "",
    "proc/u": "",
    top: "",
  });
  mkdirSync(join(root, "srv"));

  symlinkSync("usr/bin", join(root, "bin"));
  symlinkSync("/etc", join(root, "usr/out"));
  symlinkSync("../../../../../../etc/shadow", join(root, "usr/bin/up"));
  const shown = (mounts: Mount[]) =>
    mounts.map((mount) => (mount.kind === "link" ? `${mount.to} -> ${mount.text}` : mount.to)).toSorted();
  expect(shown(imageMounts(root, []))).toEqual(["/bin -> usr/bin", "/home", "/usr", "/var/lib"]);
  expect(shown(imageMounts(root, ["/usr/src/app", "/home/me/p"]))).toEqual([
    "/bin -> usr/bin",
    "/home/me/.bashrc",
    "/usr/bin",
    "/usr/out -> /etc",
    "/usr/src/z",
    "/var/lib",
  ]);
  expect(["/bin/x", "/usr/out/x", "/usr/bin/up", "/usr/bin/../src/z"].map((path) => inImage(root, path))).toEqual([
    "usr/bin/x",
    undefined,
    undefined,
    "usr/src/z",
  ]);
});

test("what an image shows one by one is bounded: each is an argument of every command", () => {
  using root = temporary();
  const fill = (from: number, to: number) => {
    for (let at = from; at < to; at += 1) writeFileSync(join(root.path, "var", `f${at}`), "");
  };
  mkdirSync(join(root.path, "var"));
  fill(0, 3998);
  expect(imageMounts(root.path, [])).toHaveLength(3998);
  fill(3998, 4000);
  expect(() => imageMounts(root.path, [])).toThrow(
    "its /var has more entries than the 4000 that can be shown one by one",
  );
});

test.each<[string, readonly string[], RegExp]>([
  ["a folder of PATH too many", [`PATH=${"/opt:".repeat(64)}/bin`], /small:1 has more than 64 folders on its PATH/],
  ["long", ["PATH=/bin", `A=${"x".repeat(70_000)}`], /small:1 sets variables of more than 65536 characters/],
  ["many", Array.from({ length: 20_000 }, (_, at) => `V${at}=x`), /more than 65536 characters/],
  ["NUL", ["PATH=/bin", "A=b\0c"], /the character NUL/],
])("the variables of an image are bounded: %s", async (_name, given, why) => {
  const inspected = async (env: readonly string[]) => {
    const arch = process.arch === "x64" ? "amd64" : process.arch;
    const said = [{ Id: imageID, Os: "linux", Architecture: arch, Size: 1, Config: { Env: env } }];
    return await inspectImage({ name: "podman", file: "/usr/bin/podman" }, reference, {}, () =>
      Promise.resolve({ output: JSON.stringify(said), error: "" }),
    );
  };
  expect(await inspected(given)).toEqual({ why: expect.stringMatching(why) });
  const usual = [`PATH=${"/opt:".repeat(63)}/bin`, `A=${"x".repeat(60_000)}`];
  expect(await inspected(usual)).toEqual({ id: imageID, env: usual, bytes: 1 });
});
