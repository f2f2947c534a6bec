import { afterAll, afterEach } from "vitest";
import { faults, record } from "./record.ts";

/** In every test file: what the service answers is what /openapi.json says. */

const once = globalThis as { answersAreRecorded?: true };
if (once.answersAreRecorded === undefined) {
  once.answersAreRecorded = true;
  record();
}

const judge = (): void => {
  const found = faults();
  if (found.length > 0) throw new Error(`Answers that docs/openapi.json does not describe:\n${found.join("\n")}`);
};
afterEach(judge);
afterAll(judge);
