import { type CheckSpec, isRun } from "../protocol/check.ts";
import type { MissionWake } from "../protocol/mission/request.ts";
import { checkSpecs, invalidField } from "../task/operation/check-spec.ts";
import { withBaselines } from "../task/operation/visual-baseline.ts";
import type { Project } from "../workspace/workspace.ts";
import type { MissionsDeps } from "./missions.ts";

/** The checks of a whole Mission, as a wake gives them. */

/** The checks have to fit into the event of the wake. */
const mostBytes = 32 * 1024;

/** Refuses with `invalid_request` checks that the service could never run on the project's head. */
export const wholeChecks = async (
  { store, limits }: Pick<MissionsDeps, "store" | "limits">,
  { checks = [], attachments = [] }: Pick<MissionWake, "checks" | "attachments">,
  { directory, git, mirror, elsewhere }: Project,
): Promise<CheckSpec[]> => {
  if (checks.length === 0) return [];
  const committed = mirror !== undefined || (elsewhere === undefined ? git?.head != null : elsewhere.git);
  if (!committed)
    throw invalidField("checks", `Expected a Git project with a commit, on which they can run, got ${directory}`);
  const specs = checkSpecs(checks);
  specs.forEach((spec, index) => {
    if (!isRun(spec)) throw invalidField(`checks[${index}].kind`, "Expected a check that the service runs, got review");
    if (spec.baseline)
      throw invalidField(`checks[${index}].baseline`, "Expected no run on the base, which a Mission has not, got true");
  });
  const size = Buffer.byteLength(JSON.stringify(specs));
  if (size > mostBytes) throw invalidField("checks", `Expected at most ${mostBytes} bytes in all, got ${size}`);
  return withBaselines(specs, checks, {
    attachments: attachments.map(({ filename, data }) => ({
      filename,
      load: async () => Buffer.from(data, "base64"),
    })),
    directory,
    blobs: store.blobs,
    limits,
  });
};
