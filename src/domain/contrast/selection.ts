/**
 * Sorts the files that a Task changed into tests, companions of tests, and code. Paths alone decide, so that a commit
 * can tell whether it has both tests and code; a file in a test folder may turn out to be a helper.
 */

export type Selection = { tests: string[]; companions: string[]; code: string[] };

const folders = new Set(
  "test tests __tests__ spec specs e2e __mocks__ fixtures __fixtures__ testdata __snapshots__ test-utils testutils".split(
    " ",
  ),
);
const scripts = /\.[cm]?[jt]sx?$/;
const code =
  /\.(?:[cm]?[jt]sx?|py|go|rs|rb|vue|svelte|astro|java|kt|scala|php|ex|exs|c|h|cc|cpp|hpp|cs|swift|sh|sql|html|css|scss|json|ya?ml|toml)$/;
/** Test files by their name, in any folder. */
const named = /\.(?:test|spec)\.[cm]?[jt]sx?$|^test_[^/]*\.py$|_test\.(?:py|go)$|_spec\.rb$/;
const helpers = /^conftest\.py$|\.snap$|^(?:spec|test)[_-]?helpers?\.[a-z]+$|^(?:rails_helper|spec_helper)\.rb$/;
/**
 * Settings and installation files of the project. They are not code: a test run on the base uses the base's versions.
 */
const settings =
  /^(?:package(?:-lock)?\.json|pnpm-lock\.yaml|yarn\.lock|tsconfig.*\.json|.*\.config\.[cm]?[jt]s|go\.(?:mod|sum)|Cargo\.(?:toml|lock)|pyproject\.toml|Gemfile(?:\.lock)?)$/;

/** Marks a Rust file that contains unit tests. */
export const rustTests = "#[cfg(test)]";

const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
const isInFolder = (path: string): boolean =>
  path
    .split("/")
    .slice(0, -1)
    .some((folder) => folders.has(folder));
/** Cargo's integration tests are directly in `tests`. */
const isCargoTest = (path: string): boolean => /(?:^|\/)tests\/[^/]+\.rs$/.test(path);

/** Whether a path may be a test; for a file in a test folder, only its text can tell. */
const mayBeTest = (path: string): boolean =>
  named.test(nameOf(path)) || isCargoTest(path) || (isInFolder(path) && scripts.test(path) && !isData(path));
const isData = (path: string): boolean =>
  path.split("/").some((folder) => /^(?:__)?(?:fixtures|mocks|snapshots)(?:__)?$|^testdata$/.test(folder));

/** `textOf`: the text of a file in a test folder. Without it, every file that may be a test counts as one. */
export const selectFiles = (paths: readonly string[], textOf?: (path: string) => string | undefined): Selection => {
  const selection: Selection = { tests: [], companions: [], code: [] };
  for (const path of paths) {
    if (mayBeTest(path) && !helpers.test(nameOf(path))) {
      const sure = named.test(nameOf(path)) || isCargoTest(path) || textOf === undefined;
      (sure || callsRunner(textOf(path) ?? "") ? selection.tests : selection.companions).push(path);
    } else if (isInFolder(path) || helpers.test(nameOf(path))) selection.companions.push(path);
    else selection.code.push(path);
  }
  return selection;
};

const callsRunner = (text: string): boolean => /\b(?:test|it|describe|suite)\s{0,9}(?:\.\w{1,20})?\(/.test(text);

/** Whether a change has both code and tests. `gone`: files that the change deletes. */
export const isTested = (paths: readonly string[], gone: readonly string[] = []): boolean => {
  const { tests, code: others } = selectFiles(paths);
  return (
    tests.length > 0 &&
    [...others, ...selectFiles(gone).code].some((path) => code.test(path) && !settings.test(nameOf(path)))
  );
};
