/** Counts what a running command has written: lines, and finished tests, which runners report one per line. */

export type Tally = {
  take(piece: string): void;
  /** The number of complete lines. */
  lines(): number;
  /** The number of tests that ended; 0: no runner was recognised. */
  tests(): number;
};

/** How many characters of a line are examined. */
const longest = 500;

// oxlint-disable-next-line no-control-regex -- the pattern removes these characters
const colours = /\u001b\[[\d;]*m/g;

/** Lines that report on a whole file or class: vitest; surefire. */
const several = [
  /^\s*[✓✔❯×✗✖√] .*\((\d+) tests?(?: \||\))/,
  /^(?:\[\w+\] )?Tests run: (\d+), .*(?: - in | -- in |Time elapsed)/,
];

/** Lines that report on one test: node, mocha and jest; TAP; go; cargo; pytest. */
const single = [
  /^\s*[✓✔×✗✖√] +\S/,
  /^\s*(?:not )?ok \d+/,
  /^\s*--- (?:PASS|FAIL|SKIP): /,
  /^test .+ \.\.\. /,
  /^(?=\S+::\S).* (?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)/,
];

/** One character for each test of a file, as pytest prints them. */
const dots = /^\S+\.py ([.FEsxX]+)/;

/** The heading under which node repeats failed tests at the end. */
const repeated = /^\s*✖ failing tests:/;

/** The beginnings, after white space, of lines that one of the forms may match. */
const beginnings = ["ok ", "not ok ", "--- ", "test ", "Tests run: ", "["] as const;

const first = new Map(beginnings.map((beginning) => [beginning.charCodeAt(0), beginning]));
const escape = 0x1b;

/**
 * Whether one of the forms may match the line at `from`. Most lines come from no runner, and a command can write
 * hundreds of megabytes of them.
 */
const isCandidate = (text: string, from: number, end: number): boolean => {
  let at = from;
  while (at < end && (text.charCodeAt(at) === 0x20 || text.charCodeAt(at) === 0x09)) at += 1;
  const unit = text.charCodeAt(at);
  if (at === end) return false;
  if (unit >= 0x80 || unit === escape) return true;
  const beginning = first.get(unit);
  return beginning !== undefined && text.startsWith(beginning, at);
};

/** Whether there may be lines of pytest, whose mark follows a path. */
const hasPaths = (text: string): boolean => text.includes("::") || text.includes(".py ");

export const createTally = (): Tally => {
  let lines = 0;
  let files = 0;
  let tests = 0;
  let over = false;
  /** The beginning of the line that is not complete yet. */
  let rest = "";

  const look = (written: string): void => {
    const line = written.replaceAll(colours, "");
    if (over || repeated.test(line)) {
      over = true;
      return;
    }
    for (const form of several) {
      const found = form.exec(line)?.[1];
      if (found === undefined) continue;
      files += Number(found);
      return;
    }
    const marks = dots.exec(line)?.[1];
    if (marks !== undefined) tests += marks.length;
    else if (single.some((form) => form.test(line))) tests += 1;
  };

  return {
    take(piece) {
      let from = 0;
      const paths = hasPaths(piece);
      for (let end = piece.indexOf("\n"); end >= 0; end = piece.indexOf("\n", from)) {
        lines += 1;
        if (rest !== "") {
          look(`${rest}${piece.slice(from, end)}`.slice(0, longest));
          rest = "";
        } else if (!over && (paths || isCandidate(piece, from, end)))
          look(piece.slice(from, Math.min(end, from + longest)));
        from = end + 1;
      }
      if (rest.length < longest) rest += piece.slice(from, from + longest - rest.length);
    },
    lines: () => lines,
    // A runner that counts by file also prints the names of some of its tests.
    tests: () => (files > 0 ? files : tests),
  };
};
