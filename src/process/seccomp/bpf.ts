import { type CallName, callNumbers, newestCall } from "./call.ts";
import { type Condition, errors, type Rule } from "./profile.ts";

/**
 * Compiles a profile to the program that the kernel runs before every system call of a sandbox: classic BPF over
 * `struct seccomp_data`, as `bwrap --seccomp` reads it. A call for another architecture than the service's, such as an
 * i386 program's, kills its process. Calls that are newer than the profile, and those of x32, are answered as if they
 * did not exist.
 */

/** AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64, with each architecture's column in `callNumbers`. */
const architectures = {
  x64: { audit: 0xc000_003e, column: 0 },
  arm64: { audit: 0xc000_00b7, column: 1 },
} as const;

const allow = 0x7fff_0000;
const killProcess = 0x8000_0000;
const refuse = (answer: keyof typeof errors): number => 0x0005_0000 | errors[answer];

/**
 * Offsets in `struct seccomp_data`, on a little-endian machine: of `nr`, of `arch`, and of the lower half of an
 * argument.
 */
const callOffset = 0;
const archOffset = 4;
const argOffset = (arg: number): number => 16 + 8 * arg;

const op = {
  load: 0x20,
  and: 0x54,
  jump: 0x05,
  equal: 0x15,
  above: 0x25,
  atLeast: 0x35,
  anyBit: 0x45,
  answer: 0x06,
} as const;

/**
 * Target of a jump: the number of instructions to skip; "holds": the end of the condition; "fails": the end of the
 * rule.
 */
type Target = number | "holds" | "fails";
type Instruction = { code: number; k: number; yes?: Target; no?: Target };

const ofCondition = (condition: Condition): Instruction[] => {
  const load = { code: op.load, k: argOffset(condition.arg) };
  if ("has" in condition) return [load, { code: op.anyBit, k: condition.has, yes: "holds", no: "fails" }];
  const { mask } = condition;
  const head = mask === undefined ? [load] : [load, { code: op.and, k: mask }];
  const positive = "is" in condition;
  const values = positive ? condition.is : condition.not;
  return [
    ...head,
    ...values.map((k, at): Instruction => {
      const last = at === values.length - 1;
      return positive
        ? { code: op.equal, k, yes: "holds", no: last ? "fails" : 0 }
        : { code: op.equal, k, yes: "fails", no: last ? "holds" : 0 };
    }),
  ];
};

/** Ends with the rule's answer; falls through if a condition does not hold. */
const ofRule = ({ answer, when = [] }: Rule): Instruction[] => {
  const conditions = when.map(ofCondition);
  const length = conditions.reduce((sum, each) => sum + each.length, 0);
  let at = 0;
  const placed = conditions.flatMap((instructions) => {
    const end = at + instructions.length;
    return instructions.map((instruction): Instruction => {
      at += 1;
      const over = (target: Target = 0) =>
        target === "holds" ? end - at : target === "fails" ? length + 1 - at : target;
      return { ...instruction, yes: over(instruction.yes), no: over(instruction.no) };
    });
  });
  return [...placed, { code: op.answer, k: refuse(answer) }];
};

const encode = (program: readonly Instruction[]): Buffer => {
  const bytes = Buffer.alloc(program.length * 8);
  for (const [at, { code, k, yes = 0, no = 0 }] of program.entries()) {
    if (typeof yes === "string" || typeof no === "string")
      throw new Error(`Expected a jump of a number, got ${yes}, ${no}`);
    bytes.writeUInt16LE(code, at * 8);
    bytes.writeUInt8(yes, at * 8 + 2);
    bytes.writeUInt8(no, at * 8 + 3);
    bytes.writeUInt32LE(k, at * 8 + 4);
  }
  return bytes;
};

/** `body`: its last instruction allows the call. */
type Block = { number: number; body: Instruction[] };

/** Farthest target of a conditional jump, in instructions. */
const farthest = 255;

/**
 * Finds a call's block by binary search, in a handful of steps: the kernel runs the program for each call, and once for
 * all numbers when a sandbox is opened. `blocks` must be sorted by number and not empty.
 */
const search = (blocks: readonly Block[]): Instruction[] => {
  const half = Math.ceil(blocks.length / 2);
  const middle = blocks[half];
  if (middle === undefined)
    return blocks.flatMap(({ number, body }) => [{ code: op.equal, k: number, yes: 0, no: body.length - 1 }, ...body]);
  const [left, right] = [search(blocks.slice(0, half)), search(blocks.slice(half))];
  const k = middle.number;
  const toRight: Instruction[] =
    left.length <= farthest
      ? [{ code: op.atLeast, k, yes: left.length, no: 0 }]
      : [
          { code: op.atLeast, k, yes: 0, no: 1 },
          { code: op.jump, k: left.length },
        ];
  return [...toRight, ...left, ...right];
};

/** undefined: no profile for this architecture (as `process.arch` names it). */
export const compileFilter = (rules: readonly Rule[], arch: string): Buffer | undefined => {
  if (arch !== "x64" && arch !== "arm64") return undefined;
  const { audit, column } = architectures[arch];
  const numberOf = (call: CallName): number | null => callNumbers[call][column];
  const byCall = new Map<number, Rule[]>();
  for (const rule of rules)
    for (const call of rule.calls) {
      const number = numberOf(call);
      if (number !== null) byCall.set(number, [...(byCall.get(number) ?? []), rule]);
    }
  const blocks = [...byCall]
    .map(([number, own]): Block => ({ number, body: [...own.flatMap(ofRule), { code: op.answer, k: allow }] }))
    .toSorted((a, b) => a.number - b.number);
  return encode([
    { code: op.load, k: archOffset },
    { code: op.equal, k: audit, yes: 1, no: 0 },
    { code: op.answer, k: killProcess },
    { code: op.load, k: callOffset },
    // A tracer sets the number to -1 to skip a call, and the tracer's own answer stands. The numbers of x32 calls are
    // above all others, too.
    { code: op.above, k: newestCall, yes: 0, no: 3 },
    { code: op.equal, k: 0xffff_ffff, yes: 0, no: 1 },
    { code: op.answer, k: allow },
    { code: op.answer, k: refuse("ENOSYS") },
    ...search(blocks),
  ]);
};
