import { describe, test } from "vitest";
import type { RunningBounds } from "../../src/store/running.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { backends, type Place } from "../harness/store.ts";

/**
 * `bounds`: on the Tasks that run. `reopen`: not in memory, where there is nothing to open again. `beside`: SQLite has
 * one process.
 */
export type Case = {
  name: string;
  needs?: "reopen" | "beside";
  bounds?: RunningBounds;
  run: (place: Place) => Promise<void>;
};

/** The cases on every implementation of the store; without PostgreSQL its own are counted as skipped. */
export const onEveryStore = (cases: readonly Case[]): void => {
  describe.each(backends)("$name", ({ name, open }) => {
    test.for(cases.filter(({ needs }) => needs === undefined || given[name]?.includes(needs)))(
      "$name",
      async ({ run, bounds }) => {
        await using place = await open(bounds);
        await run(place);
      },
    );
  });
  if (postgresURL !== undefined) return;
  countSkipped(cases.length);
  describe.skip("PostgreSQL", () => {
    test.for(cases)("$name", () => {});
  });
};

const given: Record<string, Case["needs"][]> = { "SQLite file": ["reopen"], PostgreSQL: ["reopen", "beside"] };
