import { execFileSync, spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { compileFilter } from "../../../src/process/seccomp/bpf.ts";
import { callNumbers, newestCall } from "../../../src/process/seccomp/call.ts";
import { profile } from "../../../src/process/seccomp/profile.ts";
import { always, cases, numberOf } from "./cases.ts";
import { answerOf, audits } from "./program.ts";

/** The program of the filter, run here as the kernel runs it, for both architectures. */

const wanted =
  "add_key request_key keyctl userfaultfd io_uring_setup io_uring_enter io_uring_register bpf perf_event_open kexec_load kexec_file_load open_by_handle_at mount umount2 pivot_root chroot unshare setns clone3 openat2 fsopen fsmount move_mount open_tree mount_setattr modify_ldt init_module finit_module delete_module reboot swapon swapoff syslog fanotify_init".split(
    " ",
  );

describe.each(["x64", "arm64"] as const)("the program for %s", (arch) => {
  const program = compileFilter(profile, arch) ?? Buffer.alloc(0);
  const answer = (nr: number, args: readonly number[] = [], audit = audits[arch]) => answerOf(program, nr, args, audit);

  test("decides on most calls in a few steps", () => {
    const steps: number[] = [];
    for (let nr = 0; nr <= newestCall; nr += 1) answerOf(program, nr, [], audits[arch], (count) => steps.push(count));
    expect(Math.max(...steps)).toBeLessThan(40);
    expect(steps.reduce((sum, count) => sum + count, 0) / steps.length).toBeLessThan(20);
  });

  test("is one that the kernel takes", () => {
    expect(program.length % 8).toBe(0);
    expect(program.length / 8).toBeLessThan(4096);
    for (let nr = 0; nr <= newestCall; nr += 1) expect(answer(nr)).toBeTypeOf("string");
  });

  test("answers each call as the profile says, and allows it where that rule is left out", () => {
    for (const { call, args, refused } of cases) {
      const nr = numberOf(call, arch);
      if (nr === null) continue;
      const said = { call, args, answer: answer(nr, args) };
      expect(said).toEqual({ call, args, answer: refused ?? "allow" });
      const rest = profile.filter(({ calls }) => !calls.includes(call));
      expect(answerOf(compileFilter(rest, arch) ?? Buffer.alloc(0), nr, args, audits[arch])).toBe("allow");
    }
    for (const { call, answer: expected } of always) {
      const nr = numberOf(call, arch);
      if (nr !== null) expect([call, answer(nr), answer(nr, [1, 2, 3, 4, 5, 6])]).toEqual([call, expected, expected]);
    }
    expect(wanted.filter((name) => !always.some(({ call }) => call === name))).toEqual([]);
  });

  test("allows every call that no rule names", () => {
    const named = new Set<number | null>(profile.flatMap(({ calls }) => calls.map((call) => numberOf(call, arch))));
    for (let nr = 0; nr <= newestCall; nr += 1)
      if (!named.has(nr)) expect([nr, answer(nr, [-1, -1, -1, -1, -1, -1])]).toEqual([nr, "allow"]);
  });

  test("a call that is newer than the profile does not exist; one that a tracer skips keeps the tracer's answer", () => {
    expect([newestCall + 1, 500, 0x4000_0000 + 39, 0x7fff_ffff].map((nr) => answer(nr))).toEqual(
      Array(4).fill("ENOSYS"),
    );
    expect(answer(-1)).toBe("allow");
  });

  test("a call of any other architecture ends its process", () => {
    for (const [name, audit] of Object.entries(audits))
      if (name !== arch) expect([name, answer(20, [], audit)]).toEqual([name, "kill"]);
  });
});

test("there is no program for a machine that the profile does not know", () => {
  expect(compileFilter(profile, "s390x")).toBeUndefined();
});

const library = spawnSync("python3", ["-c", "import ctypes; ctypes.CDLL('libseccomp.so.2')"]).status === 0;

test.runIf(library)("the numbers of the calls are libseccomp's, as far as it knows them", () => {
  const script = `
import ctypes, json, sys
resolve = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name_arch
resolve.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
print(json.dumps({name: [resolve(arch, name.encode()) for arch in (${audits.x64}, ${audits.arm64})] for name in sys.argv[1:]}))`;
  const names = Object.keys(callNumbers);
  const output = execFileSync("python3", ["-c", script, ...names], { encoding: "utf8" });
  const known = JSON.parse(output) as Record<string, number[]>;
  // -1: unknown to it; below that: known, and not on this architecture.
  const ours = Object.entries(callNumbers).filter(([name]) => known[name]?.[0] !== -1);
  expect(ours.length).toBeGreaterThan(70);
  expect(ours.map(([name, numbers]) => [name, ...numbers])).toEqual(
    ours.map(([name]) => [name, ...(known[name] ?? []).map((number) => (number < 0 ? null : number))]),
  );
});
