import { type Condition, errors, profile, type Rule } from "./profile.ts";

/**
 * The profile in the format of container engines (OCI). Their library compares each argument only once per rule and, of
 * the comparisons useful here, only by equality under a mask. A condition is therefore a union of such comparisons, and
 * each combination becomes a rule. The library answers calls that are unknown to it or newer in the same way as the
 * kernel.
 */

/** All 32-bit values that equal `value` under `mask`. */
type Cube = { mask: number; value: number };

const whole = 0xffff_ffff;
const bits = Array.from({ length: 32 }, (_, at) => 2 ** (31 - at));
const has = (mask: number, bit: number): boolean => (mask & bit) !== 0;
const unsigned = (value: number): number => value >>> 0;

/** All values under `mask` except these, as disjoint cubes. */
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

/** The intersection; undefined: it is empty. */
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

/** The JSON that `--security-opt seccomp=` reads from a file. */
export const ociProfile = (rules: readonly Rule[] = profile): { defaultAction: string; syscalls: OciRule[] } => ({
  defaultAction: "SCMP_ACT_ALLOW",
  syscalls: rules.flatMap(ofRule),
});
