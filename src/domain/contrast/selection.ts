/**
 * Sorts the files that a Task changed: tests, what goes along with tests, and code. By their paths alone, so that a
 * commit can tell whether it holds both; what stands in a folder for tests may turn out to be a helper.
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
/** Named for what they are, wherever they stand. */
const named = /\.(?:test|spec)\.[cm]?[jt]sx?$|^test_[^/]*\.py$|_test\.(?:py|go)$|_spec\.rb$/;
const helpers = /^conftest\.py$|\.snap$|^(?:spec|test)[_-]?helpers?\.[a-z]+$|^(?:rails_helper|spec_helper)\.rb$/;
/** Settings of the project and what belongs to the installation: they stay as the base has them. */
const settings =
  /^(?:package(?:-lock)?\.json|pnpm-lock\.yaml|yarn\.lock|tsconfig.*\.json|.*\.config\.[cm]?[jt]s|go\.(?:mod|sum)|Cargo\.(?:toml|lock)|pyproject\.toml|Gemfile(?:\.lock)?)$/;

/** What a file of Rust that holds unit tests has in it. */
export const rustTests = "#[cfg(test)]";

const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
const isInFolder = (path: string): boolean =>
  path
    .split("/")
    .slice(0, -1)
    .some((folder) => folders.has(folder));
/** Cargo's integration tests stand right in `tests`. */
const isCargoTest = (path: string): boolean => /(?:^|\/)tests\/[^/]+\.rs$/.test(path);

/** It may be one: in a folder for tests only its text tells. */
const mayBeTest = (path: string): boolean =>
  named.test(nameOf(path)) || isCargoTest(path) || (isInFolder(path) && scripts.test(path) && !isData(path));
const isData = (path: string): boolean =>
  path.split("/").some((folder) => /^(?:__)?(?:fixtures|mocks|snapshots)(?:__)?$|^testdata$/.test(folder));

/** `textOf`: the text of a file in a folder for tests; without it, whether it is one stays open and counts as yes. */
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

/** Whether a change has both code and tests; `gone`: files that it deletes. */
export const isTested = (paths: readonly string[], gone: readonly string[] = []): boolean => {
  const { tests, code: others } = selectFiles(paths);
  return (
    tests.length > 0 &&
    [...others, ...selectFiles(gone).code].some((path) => code.test(path) && !settings.test(nameOf(path)))
  );
};
