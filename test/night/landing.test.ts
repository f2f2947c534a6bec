import { join } from "node:path";
import { afterAll, beforeAll, test } from "vitest";
import { makeLab } from "../hostile.ts";
import { startService, type TestService } from "../service.ts";
import { landings } from "../api/interleave.ts";

/** Random landings on the whole road: 30 histories; the seed is printed and can be given again. */

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
beforeAll(async () => {
  lab = await makeLab();
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

test("two Tasks and a user at work: no word lost, none of the user's in a Task's commit, each Task lands or says why", {
  timeout: 1_800_000,
}, async () => {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 1_000_000);
  await landings({ url: service.url, lab }, seed, Number(process.env["TEST_RUNS"] ?? 30));
});
