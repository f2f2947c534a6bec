/** A test runner's report, and which of its failures count as red. */

/** `file`: as the runner names it; null if its report names no file. */
export type TestResult = {
  file: string | null;
  name: string;
  outcome: "passed" | "failed" | "skipped";
  message: string;
};

/** `broken`: failures outside tests, such as a file that does not load. */
export type Report = { tests: TestResult[]; broken: string[] };

/** Only this many characters of a failure are examined. */
const longest = 4000;

const marks = [
  " is not a function",
  " is not a constructor",
  " is not defined",
  "Cannot find module",
  "Cannot find package",
  "Failed to resolve import",
  "does not provide an export",
  "ModuleNotFoundError",
  "ImportError",
  "cannot import name",
  "has no attribute",
  "NameError",
  "got an unexpected keyword argument",
  "NoMethodError",
  "undefined method",
  "undefined local variable",
  "uninitialized constant",
  "cannot load such file",
];

/** Whether a test failed because the base lacks the new code, which says nothing about how the base behaves. */
export const needsNewCode = (message: string): boolean => {
  const head = message.slice(0, longest);
  return marks.some((mark) => head.includes(mark));
};

/** A value of parsed JSON as an object, a list or a text; empty if it has another type. */
export const fieldsOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
export const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
export const stringOf = (value: unknown): string => (typeof value === "string" ? value : "");

export const parsedJSON = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};
