import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { silent } from "../../src/log.ts";
import type { CommandResult } from "../../src/process/process.ts";
import { bubblewrapSandbox, findProgram, type Sandbox } from "../../src/process/sandbox/sandbox.ts";
import { findSandbox } from "../../src/process/sandbox/tier.ts";
import { callNumbers } from "../../src/process/seccomp/call.ts";
import { errors } from "../../src/process/seccomp/profile.ts";
import { createProcesses } from "../../src/process/service.ts";
import { temporary, writeFiles } from "../harness/project.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";
import { always, type Arch, cases, columns, numberOf } from "./seccomp/cases.ts";
import { work } from "./seccomp/work.ts";

/** The filter of system calls in sandboxes of this machine. The control is the same sandbox without it. */

const path = process.env["PATH"] ?? "";
const here = (await sandboxesHere()).some(({ tier }) => tier === 1);

/** Runs commands in tier 1, with the filter and without. */
const open = (change: (sandbox: (without?: string[]) => Sandbox) => Sandbox = (sandbox) => sandbox()) => {
  const folder = temporary("sortie-seccomp-");
  const options = { path, home: process.env["HOME"] ?? "/root", paths: [], dataDir: join(folder.path, "data") };
  const tree = join(folder.path, "tree");
  mkdirSync(tree);
  const sandbox = change((without) => bubblewrapSandbox(options, false, findProgram("bwrap", path) ?? "", without));
  const processes = createProcesses({
    folder: join(folder.path, "data/processes"),
    keepEnv: process.env,
    sandbox,
    log: silent,
  });
  onTestFinished(async () => {
    await processes.stop();
    folder[Symbol.dispose]();
  });
  const signal = new AbortController().signal;
  const run = (script: string): Promise<CommandResult> =>
    processes.run(
      "task_a",
      { run: script, cwd: tree, timeoutMs: 120_000, keepBytes: 100_000, signal },
      { tree, at: tree, under: () => [], over: () => [] },
    );
  return { tree, run };
};
const filtered = () => open();
const unfiltered = () => open((sandbox) => sandbox(["filter"]));

/** Makes the calls and says what each returned: the error's number, 0 for success. */
const callScript = (calls: readonly { nr: number; args: readonly number[] }[]): string =>
  `perl -e '${calls.map(({ nr, args }) => `$!=0; syscall(${[nr, ...args].join(",")}); print $!+0, "\\n";`).join(" ")}'`;

describe.runIf(here && (process.arch === "x64" || process.arch === "arm64"))("in tier 1", () => {
  const arch = process.arch as Arch;

  test("the kernel answers as the profile says; without the filter it answers otherwise", async () => {
    // Without arguments that could have an effect where they are allowed.
    const calls = [
      ...always.map(({ call, answer }) => ({ call, args: [0, 0, 0, 0, 0, 0], refused: answer })),
      ...cases.flatMap(({ call, args, refused }) => (refused === undefined ? [] : [{ call, args, refused }])),
    ].flatMap(({ call, args, refused }) => {
      const nr = numberOf(call, arch);
      return nr === null || call === "vhangup" ? [] : [{ call, nr, args, refused }];
    });
    const told = async (at: ReturnType<typeof open>) =>
      (await at.run(callScript(calls))).stdout.trim().split("\n").map(Number);
    const [inside, control] = [await told(filtered()), await told(unfiltered())];
    expect(calls.map(({ call, args }, at) => [call, args, inside[at]])).toEqual(
      calls.map(({ call, args, refused }) => [call, args, errors[refused]]),
    );
    // Many are refused for want of capabilities anyway. Of these each was possible, or went further.
    const changed = new Set(calls.flatMap(({ call }, at) => (inside[at] === control[at] ? [] : [call])));
    for (const name of "add_key request_key keyctl clone3 openat2 socket openat fchmodat personality get_mempolicy".split(
      " ",
    ))
      expect([...changed]).toContain(name);
  });

  test("sockets of the virtual machine's host, of the kernel's ciphers and of packets cannot be made", async () => {
    const script = `perl -MSocket -e 'for ([40,1,0],[38,5,0],[17,3,768],[29,3,1],[30,1,0],[16,3,12],[2,1,132],[1,1,0],[2,1,0],[10,2,0],[16,3,0]) { $!=0; print socket(my $s, $_->[0], $_->[1], $_->[2]) ? "made" : $!+0, " " }'`;
    const [inside, control] = [await filtered().run(script), await unfiltered().run(script)];
    expect(inside.output.trim()).toBe("97 97 97 97 97 93 93 made made made made");
    // Control: the kernel's module for the host's sockets is there, or it is asked for.
    expect(control.output.trim()).not.toBe(inside.output.trim());
    expect(control.output.trim().split(" ").slice(7)).toEqual(["made", "made", "made", "made"]);
  });

  test("no file is left with a set-uid or set-gid bit, by any way of making one", async () => {
    const ways = [
      "echo a > a; chmod 4755 a",
      "echo b > b; chmod g+s b",
      "install -m 6755 /bin/true c",
      "mkdir d; chmod 2775 d",
      `perl -MFcntl -e 'sysopen(F, "e", O_CREAT|O_RDWR, 06755)'`,
      `perl -e 'umask 0; open F, ">f"; chmod 04755, *F'`,
      // mknodat, and openat2 with { O_CREAT | O_RDWR, 06755, 0 }.
      `perl -e 'umask 0; $f = "g"; syscall(${numberOf("mknodat", arch)}, -100, $f, 0106755, 0)'`,
      `perl -e 'umask 0; $f = "h"; $how = pack("QQQ", 0102, 06755, 0); syscall(${callNumbers.openat2[0]}, -100, $f, $how, 24)'`,
      `echo i > i; perl -e '$f = "i"; syscall(${callNumbers.fchmodat2[0]}, -100, $f, 04755, 0)'`,
      `perl -e 'umask 0; $d = "."; $f = "j"; $fd = syscall(${numberOf("openat", arch)}, -100, $d, 020200002, 06755); $p = "/proc/self/fd/$fd"; syscall(${arch === "x64" ? 265 : 37}, -100, $p, -100, $f, 0x400)'`,
      "printf '' > k; chmod 6755 k; cp -p k l; tar cf t k; mkdir x; tar xpf t -C x",
    ].join("\n");
    const left = (tree: string) =>
      readdirSync(tree, { recursive: true, encoding: "utf8" })
        .filter((name) => (statSync(join(tree, name)).mode & 0o6000) !== 0)
        .toSorted();
    const [inside, control] = [filtered(), unfiltered()];
    await inside.run(ways);
    await control.run(ways);
    expect(left(inside.tree)).toEqual([]);
    expect(left(control.tree)).toEqual(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "x/k"]);
  });

  test("a key of the kernel cannot be made or read", async () => {
    const { add_key: add, keyctl } = callNumbers;
    const at = columns[arch];
    // -4: the user's keyring, which goes with the sandbox.
    const script = `perl -e '($t, $n, $v) = ("user", "sortie-test", "secret"); $id = syscall(${add[at]}, $t, $n, $v, 6, -4); $b = "\\0" x 16; print $id > 0 && syscall(${keyctl[at]}, 11, $id, $b, 16) == 6 ? $b : "nothing"'`;
    expect((await filtered().run(script)).output).toBe("nothing");
    expect((await unfiltered().run(script)).output.replaceAll("\0", "")).toBe("secret");
  });

  test.runIf(arch === "x64")("a program of another architecture ends", async () => {
    // The smallest ELF of i386: exit(7).
    const program = Buffer.from(
      "7f454c4601010100000000000000000002000300010000005480040834000000000000000000000034002000010000000000000001000000000000000080040800800408600000006000000005000000001000" +
        "00b801000000bb07000000cd80",
      "hex",
    );
    const outcome = async (at: ReturnType<typeof open>) => {
      writeFileSync(join(at.tree, "old"), program, { mode: 0o755 });
      return (await at.run("./old 2>/dev/null; echo $?")).stdout;
    };
    const control = await outcome(unfiltered());
    // 126: this kernel runs none.
    expect(["7\n", "126\n"]).toContain(control);
    if (control === "7\n") expect(await outcome(filtered())).toBe(`${128 + 31}\n`);
  });

  test("a kernel that takes no filter has tier 1 without one, and says why", async () => {
    for (const [answer, why] of [
      ["echo 'bwrap: prctl(PR_SET_SECCOMP): Invalid argument' >&2; exit 1", /PR_SET_SECCOMP/],
      // One that takes it and does nothing.
      [`exec ${findProgram("bwrap", path)} "\${@//--seccomp/--sync-fd}"`, /lets through: system-calls/],
    ] as const) {
      const folder = temporary("sortie-seccomp-");
      onTestFinished(() => folder[Symbol.dispose]());
      const shim = join(folder.path, "bin/bwrap");
      writeFiles(folder.path, {
        "bin/bwrap": `#!/bin/bash\nfor each; do if [ "$each" = --seccomp ]; then ${answer}; fi; done\nexec ${findProgram("bwrap", path)} "$@"\n`,
      });
      execFileSync("chmod", ["755", shim]);
      const options = {
        path: `${join(folder.path, "bin")}:${path}`,
        home: process.env["HOME"] ?? "/root",
        paths: [],
        dataDir: join(folder.path, "data"),
        mode: "required" as const,
        source: "the test",
        network: undefined,
      };
      const found = await findSandbox(options);
      expect(found).toMatchObject({ tier: 1, name: "bubblewrap", filter: undefined });
      expect(found.unfiltered).toMatch(why);
      const at = open(() => found);
      expect((await at.run("grep Seccomp: /proc/self/status")).stdout).toBe("Seccomp:\t0\n");
      // Control: as it is here.
      expect(await findSandbox({ ...options, path })).toMatchObject({ tier: 1, unfiltered: undefined });
    }
    expect((await filtered().run("grep Seccomp: /proc/self/status")).stdout).toBe("Seccomp:\t2\n");
  });

  const present = Object.keys(work).filter((name) => findProgram(name, path) !== undefined);

  test.each(present)("%s works under the filter", { timeout: 120_000 }, async (name) => {
    const { script = "", says = "" } = work[name] ?? {};
    const ran = await filtered().run(script);
    expect({ output: ran.stdout.trim().split("\n").at(-1), whole: ran.output }).toEqual({
      output: says,
      whole: expect.anything() as string,
    });
  });
});
