import type { VisualCheck } from "../../protocol/check.ts";
import type { CheckEnvironment } from "../../workspace/workspace.ts";
import { visit } from "../browser/visit.ts";
import type { CheckOptions, CheckResult } from "../check.ts";
import { lastLines } from "../shell.ts";
import { compare } from "./pixel.ts";

/**
 * A check that takes a page's screenshot and compares it with a baseline; without a baseline it passes once the page
 * has loaded, and the screenshot is evidence.
 */

type Verdict = Pick<CheckResult, "state" | "reason"> & { told: string; pictures: Kept[] };
type Kept = NonNullable<CheckResult["artifacts"]>[number];

export const runVisualCheck = async (
  check: VisualCheck,
  place: CheckEnvironment,
  options: CheckOptions,
): Promise<CheckResult> => {
  const begun = performance.now();
  const { signal, network } = options;
  const until = { signal, timeoutMs: check.timeoutSeconds * 1000, network };
  const { shot, log } = await visit(check, place, options.browser, until);
  signal.throwIfAborted();
  const { state, reason, told, pictures } = await judge(check, shot, options);
  const output = `$ ${check.start}\n${log === "" ? "" : `${log}\n`}${told}\n`;
  options.onOutput?.(output);
  return {
    state,
    exitCode: null,
    durationMs: performance.now() - begun,
    output,
    tail: lastLines(output),
    reason,
    artifacts: pictures,
    final: "late" in shot,
  };
};

const judge = async (
  check: VisualCheck,
  shot: Awaited<ReturnType<typeof visit>>["shot"],
  { blob }: CheckOptions,
): Promise<Verdict> => {
  const failed = (reason: string, pictures: Kept[] = []): Verdict => ({
    state: "failed",
    reason,
    told: reason,
    pictures,
  });
  const error = (reason: string, pictures: Kept[] = []): Verdict => ({
    ...failed(reason, pictures),
    state: "error",
  });
  if ("error" in shot) return error(shot.error);
  if ("failed" in shot) return failed(shot.failed);
  const { url, against, maxDiffRatio } = check;
  const picture = { filename: `${check.id}.png`, title: `${url} as it looks`, mime: "image/png", bytes: shot.png };
  if (against === undefined)
    return {
      state: "passed",
      reason: null,
      told: `${url} loaded. No image was given to compare it with.`,
      pictures: [picture],
    };
  const baseline = await blob(against.sha256);
  if (baseline === undefined)
    return error(`Expected the ${against.bytes} bytes of ${against.name} in the data folder, got nothing there`, [
      picture,
    ]);
  const compared = await compare(shot.png, baseline);
  switch (compared.kind) {
    case "unreadable":
      return error(`${against.name} could not be compared: ${compared.why}`, [picture]);
    case "other size":
      return failed(
        `Expected an image of ${compared.expected} pixels, like ${against.name}, got ${compared.got}. Set the viewport`,
        [picture],
      );
    case "same size":
  }
  const { different, total, diff } = compared;
  const ratio = different / total;
  const words = `${ratio.toFixed(6)} (${different} of ${total})`;
  const difference = {
    filename: `${check.id}-diff.png`,
    title: `Where ${url} differs from ${against.name}, in red`,
    mime: "image/png",
    bytes: Buffer.from(diff),
  };
  const pictures = different === 0 ? [picture] : [picture, difference];
  if (ratio > maxDiffRatio)
    return failed(
      `Expected at most ${maxDiffRatio} of the pixels to differ from ${against.name}, got ${words}`,
      pictures,
    );
  return {
    state: "passed",
    reason: null,
    told: `${url}: ${words} of the pixels differ from ${against.name}`,
    pictures,
  };
};
