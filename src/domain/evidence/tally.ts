/** Counts what a running command has written: lines, and the tests that ended, as runners name them one a line. */

export type Tally = {
  take(piece: string): void;
  /** Lines that are complete. */
  lines(): number;
  /** Tests that ended; 0: no runner was recognised. */
  tests(): number;
};

/** Characters of a line that are looked at. */
const longest = 500;

// oxlint-disable-next-line no-control-regex -- to remove them is what it is for
const colours = /\u001b\[[\d;]*m/g;

/** Lines that tell of a whole file or class: vitest; surefire. */
const several = [
  /^\s*[✓✔❯×✗✖√] .*\((\d+) tests?(?: \||\))/,
  /^(?:\[\w+\] )?Tests run: (\d+), .*(?: - in | -- in |Time elapsed)/,
];

/** A line for each test: node, mocha and jest; TAP; go; cargo; pytest. */
const single = [
  /^\s*[✓✔×✗✖√] +\S/,
  /^\s*(?:not )?ok \d+/,
  /^\s*--- (?:PASS|FAIL|SKIP): /,
  /^test .+ \.\.\. /,
  /^\S+::\S.* (?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)/,
];

/** One character for each test of a file: pytest. */
const dots = /^\S+\.py ([.FEsxX]+)/;

/** What node repeats at the end. */
const repeated = /^\s*✖ failing tests:/;

export const createTally = (): Tally => {
  let lines = 0;
  let files = 0;
  let tests = 0;
  let over = false;
  /** The line that is not complete. */
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
      const parts = piece.split("\n");
      for (const [index, part] of parts.entries()) {
        if (rest.length < longest) rest += part.slice(0, longest - rest.length);
        if (index === parts.length - 1) continue;
        lines += 1;
        look(rest);
        rest = "";
      }
    },
    lines: () => lines,
    // A runner that counts by file names some of its tests, too.
    tests: () => (files > 0 ? files : tests),
  };
};
