import fc from "fast-check";
import { expect, test } from "vitest";
import { exitOf } from "../../../src/cli/resolve-id.ts";
import { bytes, clean, duration, line, money } from "../../../src/cli/terminal/format.ts";

/** What came from a service, made safe for a terminal, figures as people read them, and ends as exit codes. */

const escape = "\u001b";

test("leaves words alone and takes every control away", () => {
  expect(clean("Grüße,\n\t日本語 👩‍👩‍👧 a[31m")).toBe("Grüße,\n\t日本語 👩‍👩‍👧 a[31m");
  expect(clean(`a${escape}[1;31mb${escape}[0mc`)).toBe("abc");
  expect(clean(`a${escape}]8;;http://x${escape}\\link${escape}]8;;${escape}\\b`)).toBe("alinkb");
  expect(clean(`a${escape}P1;2qpayload${escape}\\b\rc\u0008`)).toBe("abc");
});

test("random mixtures keep nothing that steers, and take linear time", () => {
  const seed = Date.now() >>> 0;
  const piece = fc.oneof(
    fc.string({ maxLength: 4 }),
    fc.constantFrom(escape, `${escape}[`, `${escape}]`, "\u009d", "\u0007", "\r", "\u202e", `${escape}\\`),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const cleaned = clean(pieces.join(""));
      return (
        !/(?![\t\n])\p{Cc}|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u.test(cleaned) && clean(cleaned) === cleaned
      );
    }),
    { seed, numRuns: 500 },
  );
  const began = performance.now();
  for (const hostile of [escape, `${escape}]`, `${escape}[`, "\u009d", `${escape}[0;`]) clean(hostile.repeat(200_000));
  expect(performance.now() - began, `seed ${seed}`).toBeLessThan(2000);
});

test("figures", () => {
  expect([0.4, 999, 1000, 59_940, 61_000, 3_600_000].map(duration)).toEqual([
    "0 ms",
    "999 ms",
    "1.0 s",
    "59.9 s",
    "1 min 01 s",
    "60 min 00 s",
  ]);
  expect([null, 0, 0.00042, 0.25, 12].map(money)).toEqual(["unknown", "$0", "$0.0004", "$0.25", "$12.00"]);
  expect([0, 1023, 1024, 5 * 1024 ** 3].map(bytes)).toEqual(["0 B", "1023 B", "1.0 KiB", "5.0 GiB"]);
  expect(line("a\n\n b\tc", 4)).toBe("a b…");
});

test("how a Task ends decides the exit code", () => {
  const failed = (code: string, error = "…") =>
    exitOf({
      lifecycleStatus: "failed",
      error,
      errorInfo: { code, retryable: false, remedy: null, at: "2026-01-01T00:00:00.000Z" },
    });
  expect([
    exitOf({ lifecycleStatus: "completed" }),
    failed("instruction_failed"),
    failed("checks_failed"),
    failed("needs_model"),
    failed("budget_reached", "The Task reached its limit of 5 minutes (maxMinutes; used 5.1)."),
    failed("budget_reached", "The Task reached its limit of 5 steps (maxSteps; used 5)."),
    exitOf({ lifecycleStatus: "cancelled", error: "Cancelled by cli" }),
  ]).toEqual([0, 1, 5, 6, 124, 1, 130]);
});
