/** Finds the line of an output that says what failed. */

/** What runners and compilers write before a cause, and what people write. */
const marked =
  /^\s*(×|✗|✕|✖|not ok\b|--- FAIL|FAIL\b|FAILED\b|E {3,}|Failures?:|panic:|fatal:|error\b)|\b\w*(Error|Exception)\b ?:|\berror( TS\d+|\[E\d+\])|^\[error\]|panicked at|: (command )?not found$|Traceback \(/i;
const spoken = /\b(errors?|exception|fail(ed|s|ure|ures)?|cannot|could not|unable to|fatal|no such)\b/i;
/** Passed tests may have any name, and a count of nothing is no error. */
const harmless = /^\s*(✓|✔|√|ok\b|PASS\b|#|ℹ)|\b(0|no) (errors?|fail(ed|ures?|ing)?)\b/i;

/** The index of the line that says first what failed; -1: none does. `red`: it did not exit with 0. */
export const failingLine = (lines: readonly string[], red: boolean): number => {
  const cause = lines.findIndex((line) => marked.test(line) && !harmless.test(line));
  return cause >= 0 || !red ? cause : lines.findIndex((line) => spoken.test(line) && !harmless.test(line));
};

/** The same of a failed command's whole output. */
export const failingLineOf = (output: string): number => failingLine(output.split("\n"), true);
