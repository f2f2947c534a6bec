/** Finds the line of an output that says what failed. */

/** `marked`: how runners and compilers mark a cause. `spoken`: how people write about one. */
const marked =
  /^\s*(×|✗|✕|✖|not ok\b|--- FAIL|FAIL\b|FAILED\b|E {3,}|Failures?:|panic:|fatal:|error\b)|\b\w*(Error|Exception)\b ?:|\berror( TS\d+|\[E\d+\])|^\[error\]|panicked at|: (command )?not found$|Traceback \(/i;
const spoken = /\b(errors?|exception|fail(ed|s|ure|ures)?|cannot|could not|unable to|fatal|no such)\b/i;
/** Lines that are no cause: passed tests, whatever their name, and counts of zero. */
const harmless = /^\s*(✓|✔|√|ok\b|PASS\b|#|ℹ)|\b(0|no) (errors?|fail(ed|ures?|ing)?)\b/i;

/** The index of the first line that tells what failed; -1: there is none. `red`: the command did not exit with 0. */
export const failingLine = (lines: readonly string[], red: boolean): number => {
  const cause = lines.findIndex((line) => marked.test(line) && !harmless.test(line));
  return cause >= 0 || !red ? cause : lines.findIndex((line) => spoken.test(line) && !harmless.test(line));
};

/** The same for the whole output of a failed command. */
export const failingLineOf = (output: string): number => failingLine(output.split("\n"), true);
