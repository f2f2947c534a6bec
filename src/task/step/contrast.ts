import { randomBytes } from "node:crypto";
import { findRedefined } from "../../check/project/redefined.ts";
import { folderOf, missingProgram, toolPath } from "../../check/shell.ts";
import { missingExport } from "../../domain/contrast/missing-export.ts";
import type { Report } from "../../domain/contrast/report.ts";
import { manifestsFor, type TestRun, testRunsOf } from "../../domain/contrast/runner.ts";
import { rustTests, selectFiles } from "../../domain/contrast/selection.ts";
import { type Contrast, judgeBase, judgeContrast, linesOf } from "../../domain/contrast/verdict.ts";
import { contrastWords } from "../../domain/contrast/wording.ts";
import { messageOf } from "../../error.ts";
import { plainText } from "../../process/plain-text.ts";
import { shellQuote } from "../../shell-quote.ts";
import type { BaseFiles, CheckEnvironment, Checkout, FileOverride } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";
import { withDiskBound } from "../workspace/disk-bound.ts";
import { withSecrets } from "../workspace/setup.ts";
import { withTamperGuard } from "../workspace/tamper.ts";
import { messageFromService } from "./message.ts";

/**
 * Proof by contrast: the tests that a change adds or changes run against the code of the base, in the checkout of the
 * change with the other files put back. The tests keep their helpers and fixtures; installed dependencies stay as they
 * are. The run on the base, its repetition when it was red, and the run with the change share
 * `limits.projectCheckSeconds`.
 */

/** Files beyond this number are not put back: reading each takes a process. */
const mostFiles = 300;
const keepBytes = 4 * 1024 * 1024;

/** The command that detection found for the project's tests. */
type About = { test: string | undefined };

/** Records the result, unless `signal` aborted: then something else has to be done with the change first. */
export const runContrast = async (
  run: Run,
  { test }: About,
  checkout: Checkout,
  signal: AbortSignal,
): Promise<void> => {
  const { tree, workspace } = run.state();
  if (tree === null || workspace?.baseCommit == null) return;
  const { baseCommit } = workspace;
  const started = performance.now();
  const log: string[] = [];
  const find = async (): Promise<Found> => {
    using _slot = await run.slot(signal);
    const failed = await run.checkout.setUp();
    if (failed !== undefined) return cannotRun(failed.reason ?? "the setup failed");
    const before = await checkout.before(baseCommit);
    return await contrastOf(run, { test, checkout, before, signal, log });
  };
  // An error of the contrast is no reason to fail the Task.
  const found = await find().catch((error: unknown) => cannotRun(messageOf(error)));
  if (signal.aborted) return;
  const { result, command, firstLines, reason } = found;
  const data = {
    result,
    command,
    firstLines,
    reason,
    commit: tree.commit,
    tree: tree.tree,
    baseCommit,
    durationMs: Math.round(performance.now() - started),
    log: await run.store.blobs.put(Buffer.from(log.join("\n"))),
  };
  await run.record([{ type: "contrast.finished", data }]);
};

type Found = Contrast & { command: string | null };

const cannotRun = (reason: string, firstLines: string | null = null, command: string | null = null): Found => ({
  result: "cannot-run",
  reason,
  firstLines,
  command,
});

type Work = About & { checkout: Checkout; before: BaseFiles; signal: AbortSignal; log: string[] };

const contrastOf = async (run: Run, work: Work): Promise<Found> => {
  const { before, checkout, test, signal, log } = work;
  const plan = await planOf(before, test, run.environment.secrets);
  if (typeof plan === "string") return cannotRun(plan);
  const { runs, overrides, added, missing, env, laid } = plan;
  const command = runs.map(({ folder, shown }) => (folder === "" ? shown : `cd ${folder} && ${shown}`)).join("; ");
  const until = performance.now() + run.limits.projectCheckSeconds * 1000;
  const inPlace = async (
    name: string,
    overlaid: readonly FileOverride[],
    gone: readonly string[],
    times: (report: Report) => boolean,
  ) => {
    await using opened = await checkout.open(name, overlaid);
    const place = withDiskBound(run, withTamperGuard(run, withSecrets(opened, env)));
    const one = () => runAll(run, place, { runs, gone, until, signal, log, name });
    const first = await one();
    return typeof first === "string" || !times(first) ? [first] : [first, await one()];
  };
  const isRed = (report: Report): boolean => {
    const judged = judgeBase(report, missing);
    return !("result" in judged) && judged.red.length > 0;
  };
  const others = laid.filter(({ path }) => !overrides.some((one) => one.path === path));
  // The `~` keeps this name apart from the ids of checks.
  const [base, again] = await inPlace("contrast~base", [...overrides, ...others], added, isRed);
  if (base === undefined || typeof base === "string") return cannotRun(base ?? "not run", null, command);
  if (typeof again === "string") return cannotRun(again, null, command);
  const first = judgeBase(base, missing);
  if ("result" in first) return { ...first, command };
  const [after] = await inPlace("contrast~work", laid, [], () => false);
  if (after === undefined || typeof after === "string") return cannotRun(after ?? "not run", null, command);
  return { ...judgeContrast(first, again, after), command };
};

type Plan = {
  runs: TestRun[];
  /** Files to put back as they were on the base, and files that did not exist there. */
  overrides: FileOverride[];
  added: string[];
  /** The project's secrets, if the base commit defines how its tests run; undefined: the tests get none. */
  env: Readonly<Record<string, string>> | undefined;
  /** With secrets: the files that define the test command as they were on the base, where the work has changed them. */
  laid: FileOverride[];
  /** Whether a test file, as a runner names it, imports something that the base does not have. */
  missing: (file: string) => boolean;
};

/** What to run, and with which files; or why that is impossible. */
const planOf = async (
  before: BaseFiles,
  test: string | undefined,
  secrets: Readonly<Record<string, string>>,
): Promise<Plan | string> => {
  if (before.paths.length > mostFiles) return `the change has more than ${mostFiles} files`;
  const present = before.paths.filter(({ is }) => is === "file").map(({ path }) => path);
  const texts = new Map(
    await Promise.all(present.map(async (path) => [path, (await before.now(path)) ?? ""] as const)),
  );
  const { tests, code } = selectFiles(
    before.paths.map(({ path }) => path),
    (path) => texts.get(path),
  );
  const changed = tests.filter((path) => texts.has(path));
  if (changed.length === 0)
    return [...texts].some(([path, text]) => path.endsWith(".rs") && text.includes(rustTests))
      ? "unit tests of Rust stand in the files that they test, and cannot be run on the base without them"
      : "the change has no test file";
  const runsBy = async (read: BaseFiles["text"]) => {
    const manifests = new Map<string, string>();
    for (const path of manifestsFor(changed)) {
      const text = await read(path);
      if (text !== undefined) manifests.set(path, text);
    }
    const files = changed.map((path) => ({ path, text: texts.get(path) ?? "" }));
    return testRunsOf(files, { test, manifest: (path) => manifests.get(path) });
  };
  // As with checks, only commands that the base commit defines get secrets.
  const own = test === undefined || Object.keys(secrets).length === 0 ? [] : await runsBy((path) => before.text(path));
  const env = own.length > 0 ? secrets : undefined;
  const runs = own.length > 0 ? own : await runsBy((path) => before.now(path));
  const { laid } = env === undefined || test === undefined ? { laid: [] } : await findRedefined(test, ".", before);
  if (runs.length === 0)
    return "no runner that the service can read: vitest, jest, mocha, node:test, pytest, go, cargo, rspec";

  const overrides: FileOverride[] = [];
  const added: string[] = [];
  const old = new Map<string, string | null>();
  const sides = new Map(before.paths.map((each) => [each.path, each]));
  for (const path of code) {
    const side = sides.get(path);
    if (side?.was === "other" || side?.is === "other") return "the change has a link or a submodule";
    const was = await before.changed(path);
    old.set(path, was?.bytes.toString("utf8") ?? null);
    if (was === undefined) added.push(path);
    else overrides.push({ path, ...was });
  }
  const lost = changed.filter(
    (path) => missingExport(path, texts.get(path) ?? "", (other) => old.get(other)) !== undefined,
  );
  return {
    runs,
    overrides,
    added,
    env,
    laid,
    missing: (file) => lost.some((path) => file === path || file.endsWith(`/${path}`)),
  };
};

type Runs = {
  runs: TestRun[];
  gone: readonly string[];
  until: number;
  signal: AbortSignal;
  log: string[];
  name: string;
};

/** Runs all commands one after the other and joins their reports; resolves to the reason when there is no report. */
const runAll = async (run: Run, place: CheckEnvironment, asked: Runs): Promise<Report | string> => {
  const { runs, gone, until, signal, log, name } = asked;
  const whole: Report = { tests: [], broken: [] };
  for (const { folder, run: command, shown, read } of runs) {
    const left = until - performance.now();
    if (left < 1000) return `it took longer than ${run.limits.projectCheckSeconds} s`;
    // Random, so that the tests cannot guess it and print it themselves.
    const mark = `report ${randomBytes(12).toString("hex")}`;
    const lines = [
      toolPath(place.rootInSandbox, folder),
      ...(gone.length === 0
        ? []
        : [`(cd ${shellQuote(place.rootInSandbox)} && rm -f -- ${gone.map(shellQuote).join(" ")})`]),
      "report=$(mktemp) || exit 126",
      command,
      "code=$?",
      `printf '\\n%s\\n' ${shellQuote(mark)}`,
      `cat "$report"; rm -f "$report"; exit "$code"`,
    ];
    const ran = await place.run({
      run: lines.join("\n"),
      cwd: folderOf(place, folder === "" ? undefined : folder),
      timeoutMs: left,
      keepBytes,
      signal,
      fresh: true,
    });
    signal.throwIfAborted();
    const at = ran.stdout.lastIndexOf(mark);
    const said = run.store.redact(await plainText(at < 0 ? ran.output : (ran.output.split(mark)[0] ?? "")));
    log.push(`--- ${name}: ${shown}`, said.trim());
    if (ran.ended === "timeout") return `it took longer than ${run.limits.projectCheckSeconds} s`;
    if (ran.ended !== "exit") return `it ended: ${ran.ended}`;
    const report = at < 0 ? undefined : read(run.store.redact(ran.stdout.slice(at + mark.length).trim()));
    if (report !== undefined) {
      whole.tests.push(...report.tests);
      whole.broken.push(...report.broken);
    } else {
      const lacks = missingProgram({ ...ran, exitCode: ran.exitCode, output: said });
      if (lacks !== undefined) return lacks;
      whole.broken.push(linesOf(said) || `the runner wrote no report (exit ${ran.exitCode})`);
    }
  }
  return whole;
};

/** Tells the agent that its tests are green on the base, although a check was red there. */
export const reportUnprovenTests = async (run: Run): Promise<void> => {
  const state = run.state();
  if (state.contrast === null) return;
  const red = Object.values(state.baseline)
    .filter((result) => result.state === "failed")
    .map(({ checkID }) => state.checks.find(({ id }) => id === checkID)?.name ?? checkID);
  const text = `The service ran the tests that you added or changed on the code as it was before your work, too. The result ${contrastWords(state.contrast)}. But \`${red.join("`, `")}\` was red there, so these tests do not show what your change mends.\n\nMake one of them fail without the change, or say why none can.`;
  await run.record([await messageFromService(run, "contrast", text)], { decidedAt: state.version });
};
