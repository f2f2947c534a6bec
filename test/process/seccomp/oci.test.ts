import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { compileFilter } from "../../../src/process/seccomp/bpf.ts";
import { type CallName, callNumbers, newestCall } from "../../../src/process/seccomp/call.ts";
import { ociProfile } from "../../../src/process/seccomp/oci.ts";
import { errors, profile } from "../../../src/process/seccomp/profile.ts";
import { always, cases, numberOf } from "./cases.ts";
import { answerOf, audits } from "./program.ts";

/**
 * The profile for container engines against the kept one: the same answer to every call of the table, by what the words
 * of the format mean, and by the program that engines' own library makes of them.
 */

const { defaultAction, syscalls } = ociProfile();
const nameOf = (errno: number): string =>
  Object.entries(errors).find(([, number]) => number === errno)?.[0] ?? String(errno);

/** What the rules say of a call: a rule holds where all of its comparisons do. */
const answersOf = (call: string, args: readonly number[]): string[] =>
  syscalls
    .filter(
      ({ names, args: compared }) =>
        names.includes(call) &&
        compared.every(
          ({ index, value: mask, valueTwo }) =>
            (BigInt.asUintN(64, BigInt(args[index] ?? 0)) & BigInt(mask)) === BigInt(valueTwo),
        ),
    )
    .map(({ errnoRet }) => nameOf(errnoRet));

/** The calls of the table, and those that are refused whatever their arguments are. */
const table: { call: CallName; args: number[]; refused?: string }[] = [
  ...cases,
  ...always.flatMap(({ call, answer }) => [
    { call, args: [0, 0, 0, 0, 0, 0], refused: answer },
    { call, args: [1, 2, 3, 4, 5, 6], refused: answer },
    { call, args: [-1, -1, -1, -1, -1, -1], refused: answer },
  ]),
];

/** Arguments around what the profile's conditions look at, by chance; the seed is printed where it fails. */
const seed = Number(process.env["SEED"] ?? Math.floor(Math.random() * 2 ** 31));
const random = (): (() => number) => {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state;
  };
};
const special = profile.flatMap(({ when = [] }) =>
  when.flatMap((condition) =>
    "has" in condition ? [condition.has] : "is" in condition ? condition.is : condition.not,
  ),
);
const tried = (): { call: CallName; args: number[] }[] => {
  const next = random();
  const value = (): number => {
    const known = special[next() % special.length] ?? 0;
    const kinds = [known, known ^ (2 ** (next() % 31)), next() % 64, next(), 2 ** (next() % 32)];
    return (kinds[next() % kinds.length] ?? 0) >>> 0;
  };
  return profile.flatMap(({ calls, when }) =>
    when === undefined
      ? []
      : calls.flatMap((call) => Array.from({ length: 60 }, () => ({ call, args: Array.from({ length: 6 }, value) }))),
  );
};

test("what no rule names is allowed; a comparison is of an argument once in a rule, and of 32 bits", () => {
  expect(defaultAction).toBe("SCMP_ACT_ALLOW");
  for (const { args } of syscalls) {
    expect(new Set(args.map(({ index }) => index)).size).toBe(args.length);
    for (const { value, valueTwo } of args) {
      expect([value, valueTwo].every((one) => one >= 0 && one <= 0xffff_ffff)).toBe(true);
      // A comparison that nothing can meet refuses nothing.
      expect((BigInt(valueTwo) & ~BigInt(value)) === 0n).toBe(true);
    }
  }
  expect(new Set(syscalls.flatMap(({ names }) => names))).toEqual(new Set(profile.flatMap(({ calls }) => calls)));
});

test("each call of the table is answered as the kept profile answers it", () => {
  for (const { call, args, refused } of table) {
    const said = answersOf(call, args);
    expect({ call, args, answers: said.slice(0, 1) }).toEqual({ call, args, answers: refused ? [refused] : [] });
  }
});

describe.each(["x64", "arm64"] as const)("calls by chance, of %s", (arch) => {
  const program = compileFilter(profile, arch) ?? Buffer.alloc(0);

  test("are refused by both or by none", () => {
    for (const { call, args } of tried()) {
      const nr = numberOf(call, arch);
      if (nr === null) continue;
      const kept = answerOf(program, nr, args, audits[arch]);
      const [first = "allow"] = answersOf(call, args);
      expect({ seed, call, args, answer: first }).toEqual({ seed, call, args, answer: kept });
    }
  });
});

/** Adds the rules as engines do, and gives the program that would be loaded, or what the library said against it. */
const script = `
import ctypes, json, os, sys, tempfile
lib = ctypes.CDLL("libseccomp.so.2")
class Compared(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]
lib.seccomp_init.restype = ctypes.c_void_p
lib.seccomp_init.argtypes = [ctypes.c_uint32]
for name in ("seccomp_arch_add", "seccomp_arch_remove"):
    getattr(lib, name).argtypes = [ctypes.c_void_p, ctypes.c_uint32]
lib.seccomp_arch_native.restype = ctypes.c_uint32
lib.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
lib.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
arch = int(sys.argv[1])
context = lib.seccomp_init(0x7fff0000)
if arch != lib.seccomp_arch_native():
    assert lib.seccomp_arch_add(context, arch) == 0
    assert lib.seccomp_arch_remove(context, lib.seccomp_arch_native()) == 0
unknown = []
for rule in json.load(sys.stdin)["syscalls"]:
    for name in rule["names"]:
        number = lib.seccomp_syscall_resolve_name(name.encode())
        if number == -1:
            unknown.append(name)
            continue
        args = rule["args"]
        array = (Compared * max(1, len(args)))(*[Compared(a["index"], 7, a["value"], a["valueTwo"]) for a in args])
        answer = lib.seccomp_rule_add_array(context, 0x00050000 | rule["errnoRet"], number, len(args), ctypes.byref(array))
        assert answer == 0, (name, args, answer)
with tempfile.TemporaryFile() as file:
    assert lib.seccomp_export_bpf(context, file.fileno()) == 0
    file.seek(0)
    print(json.dumps({"unknown": unknown, "program": file.read().hex()}))
`;
const made = (arch: "x64" | "arm64") => {
  const { status, stdout, stderr } = spawnSync("python3", ["-c", script, String(audits[arch])], {
    input: JSON.stringify(ociProfile()),
    encoding: "utf8",
  });
  expect([status, stderr]).toEqual([0, ""]);
  const { unknown, program } = JSON.parse(stdout) as { unknown: string[]; program: string };
  return { unknown: new Set(unknown), program: Buffer.from(program, "hex") };
};

const library = spawnSync("python3", ["-c", "import ctypes; ctypes.CDLL('libseccomp.so.2')"]).status === 0;

describe.runIf(library).each(["x64", "arm64"] as const)("the program that engines' library makes, for %s", (arch) => {
  test("answers as the kept one: the table, every call that no rule names, and calls by chance", () => {
    const { unknown, program } = made(arch);
    const kept = compileFilter(profile, arch) ?? Buffer.alloc(0);
    let compared = 0;
    const same = (call: CallName, args: readonly number[], of: (answer: string) => unknown = (answer) => answer) => {
      const nr = numberOf(call, arch);
      if (nr === null || unknown.has(call)) return;
      compared += 1;
      expect({ seed, call, args, answer: of(answerOf(program, nr, args, audits[arch])) }).toEqual({
        seed,
        call,
        args,
        answer: of(answerOf(kept, nr, args, audits[arch])),
      });
    };
    for (const { call, args } of table) same(call, args);
    expect(compared).toBeGreaterThan(250);
    // Which of two errors a call gets that is refused for both is the library's choice.
    for (const { call, args } of tried()) same(call, args, (answer) => answer === "allow");
    const named = new Set<number | null>(profile.flatMap(({ calls }) => calls.map((call) => numberOf(call, arch))));
    for (let nr = 0; nr <= newestCall; nr += 1)
      if (!named.has(nr))
        expect([nr, answerOf(program, nr, [-1, -1, -1, -1, -1, -1], audits[arch])]).toEqual([nr, "allow"]);
    // Control: the library knows the calls that a container was broken out of with.
    for (const call of ["open_by_handle_at", "unshare", "keyctl", "bpf", "mount"] as const)
      expect([call, unknown.has(call), callNumbers[call] !== undefined]).toEqual([call, false, true]);
  });
});
