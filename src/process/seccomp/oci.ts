import { type Condition, errors, profile, type Rule } from "./profile.ts";

/**
 * The profile in the words of container engines (OCI), whose library compares an argument once in a rule, and only by
 * equality under a mask in what is of use here. A condition is a union of such comparisons: a rule for each
 * combination. The library answers calls that it does not know, and those that are newer, as the kernel does.
 */

/** All values that are `value` under `mask`; of 32 bits. */
type Cube = { mask: number; value: number };

const whole = 0xffff_ffff;
const bits = Array.from({ length: 32 }, (_, at) => 2 ** (31 - at));
const has = (mask: number, bit: number): boolean => (mask & bit) !== 0;
const unsigned = (value: number): number => value >>> 0;

/** All values under `mask` but these, as cubes that do not meet. */
const butThese = (values: readonly number[], mask: number): Cube[] => {
  const visit = (at: number, fixed: Cube, left: readonly number[]): Cube[] => {
    if (left.length === 0) return [fixed];
    const bit = bits[at];
    if (bit === undefined) return [];
    if (!has(mask, bit)) return visit(at + 1, fixed, left);
    return [0, bit].flatMap((half) =>
      visit(
        at + 1,
        { mask: unsigned(fixed.mask | bit), value: unsigned(fixed.value | half) },
        left.filter((value) => has(value, bit) === (half !== 0)),
      ),
    );
  };
  return visit(0, { mask: 0, value: 0 }, values);
};

const cubesOf = (condition: Condition): Cube[] => {
  if ("has" in condition)
    return bits.filter((bit) => has(condition.has, bit)).map((bit) => ({ mask: bit, value: bit }));
  const { mask = whole } = condition;
  if ("not" in condition) return butThese(condition.not, mask);
  return condition.is.map((value) => ({ mask, value }));
};

/** undefined: nothing is both. */
const both = (a: Cube, b: Cube): Cube | undefined =>
  unsigned((a.value ^ b.value) & a.mask & b.mask) === 0
    ? { mask: unsigned(a.mask | b.mask), value: unsigned(a.value | b.value) }
    : undefined;

type Compared = ReadonlyMap<number, Cube>;

const combined = (when: readonly Condition[]): Compared[] =>
  when.reduce<Compared[]>(
    (before, condition) =>
      before.flatMap((known) =>
        cubesOf(condition).flatMap((cube) => {
          const other = known.get(condition.arg);
          const met = other === undefined ? cube : both(other, cube);
          return met === undefined ? [] : [new Map([...known, [condition.arg, met]])];
        }),
      ),
    [new Map()],
  );

export type OciRule = {
  names: readonly string[];
  action: "SCMP_ACT_ERRNO";
  errnoRet: number;
  args: { index: number; value: number; valueTwo: number; op: "SCMP_CMP_MASKED_EQ" }[];
};

const ofRule = ({ calls, answer, when = [] }: Rule): OciRule[] =>
  combined(when).map((compared) => ({
    names: calls,
    action: "SCMP_ACT_ERRNO",
    errnoRet: errors[answer],
    args: [...compared].map(([index, { mask, value }]) => ({
      index,
      value: mask,
      valueTwo: value,
      op: "SCMP_CMP_MASKED_EQ",
    })),
  }));

/** As `--security-opt seccomp=` reads it from a file. */
export const ociProfile = (rules: readonly Rule[] = profile): { defaultAction: string; syscalls: OciRule[] } => ({
  defaultAction: "SCMP_ACT_ALLOW",
  syscalls: rules.flatMap(ofRule),
});
