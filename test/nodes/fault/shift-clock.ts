import { readFileSync } from "node:fs";

/**
 * Loaded before a service (`--import`): the clock of its process is wrong by as many milliseconds as the file
 * TEST_CLOCK_FILE says, at the start and again after each SIGUSR1. Time that passes (`performance.now`, timers) is not
 * changed.
 */
const file = process.env["TEST_CLOCK_FILE"] ?? "";
const Right = Date;
let ahead = 0;
const look = () => {
  // Threads of a service have none of its environment.
  ahead = file === "" ? 0 : Number(readFileSync(file, "utf8"));
};
look();
process.on("SIGUSR1", look);

const now = () => Right.now() + ahead;
const Wrong: DateConstructor = new Proxy(Right, {
  apply: () => new Right(now()).toString(),
  construct: (target, given: unknown[], made) =>
    Reflect.construct(target, given.length === 0 ? [now()] : given, made === Wrong ? target : made) as Date,
  get: (target, key) => (key === "now" ? now : (Reflect.get(target, key) as unknown)),
});
globalThis.Date = Wrong;
