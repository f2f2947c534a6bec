import { errorCode, messageOf } from "../../error.ts";
import { chain, events } from "./ledger.ts";
import { Exit, exit } from "../terminal/exit.ts";
import { bad, type Finding, markOf, note, ok } from "../terminal/finding.ts";
import type { Screen } from "../terminal/screen.ts";
import { line } from "../terminal/format.ts";
import {
  emptyRecord,
  faultOf,
  flow,
  flowsIn,
  type ManifestFile,
  manifestFile,
  type MissionManifest,
  type ArchiveRecord,
} from "./archive-record.ts";
import { type Blob, treeOf } from "./git-tree.ts";
import { openZip, type Unzip } from "./unzip.ts";

/**
 * `sortie task verify`: verifies the archive of a Task, or of a Mission with its Tasks, offline: files, ledgers, tree.
 * If somebody rewrote everything consistently, only a head that was noted earlier reveals it.
 */

const manifestName = `${flow}manifest.json`;
const manifestBytes = 256 * 1024 * 1024;
/** How many findings of one kind are printed; further ones are only counted. */
const shown = 20;

/** Resolves to the exit code: 0 when no finding is `bad`. */
export const verify = async (
  path: string,
  { head }: { head?: string },
  screen: Screen,
  emit: ((value: Finding) => void) | undefined,
): Promise<number> => {
  const count = new Map<string, number>();
  const say = (finding: Finding) => {
    if (emit !== undefined) emit(finding);
    else screen.say(`${markOf(finding, screen)}  ${finding.name.padEnd(8)} ${line(finding.text, 1000)}`);
  };
  for await (const finding of examine(path, head)) {
    if (finding.state === "bad") {
      const before = count.get(finding.name) ?? 0;
      count.set(finding.name, before + 1);
      if (before >= shown) continue;
    }
    say(finding);
  }
  for (const [name, times] of count) if (times > shown) say(bad(name, `and ${times - shown} more`));
  return count.size === 0 ? exit.completed : exit.failed;
};

/** The head of an archive's ledger, from its manifest. */
export const headOf = async (path: string): Promise<ManifestFile["ledger"]> => {
  using zip = await openZip(path);
  return (await manifestIn(zip)).ledger;
};

const manifestIn = async (zip: Unzip): Promise<ManifestFile> => {
  const text = await zip.text(manifestName, manifestBytes);
  if (text === undefined) throw new Error("the file does not exist");
  return manifestFile.parse(JSON.parse(text));
};

async function* examine(path: string, head: string | undefined): AsyncGenerator<Finding, void, undefined> {
  let zip: Unzip;
  try {
    zip = await openZip(path);
  } catch (error) {
    if (errorCode(error) !== undefined) throw new Exit(exit.usage, `Cannot read ${path}: ${messageOf(error)}`);
    yield bad("zip", `it cannot be read, because it is truncated or damaged: ${messageOf(error)}`);
    return;
  }
  using opened = zip;
  let manifest: ManifestFile;
  try {
    manifest = await manifestIn(opened);
  } catch (error) {
    yield bad("manifest", `${manifestName}: ${faultOf(error)}`);
    return;
  }
  const blobs: Found = { list: [], converted: false };
  yield* files(opened, manifest, blobs);
  const flows = flowsIn(manifest);
  let notedIn: string | undefined;
  for (const each of flows) {
    const at = yield* chain(opened, each, head);
    if (at !== undefined) notedIn = `${each.about}entry ${at}`;
  }
  if (head !== undefined)
    yield notedIn === undefined
      ? bad("head", `no entry has the hash ${head}: this is not the ledger that it was recorded from`)
      : ok("head", `the given hash matches ${notedIn}: nothing up to that entry has changed since`);
  const stories = new Map<string, ArchiveRecord>();
  const logged = { logs: new Map<string, string>(), artifacts: new Map<string, string>() };
  for (const each of flows) {
    const story = emptyRecord();
    if (!(yield* events(opened, each, story))) return;
    stories.set(each.id, story);
    for (const [name, sha256] of story.logs) logged.logs.set(name, sha256);
    for (const [id, sha256] of story.artifacts) logged.artifacts.set(id, sha256);
  }
  yield* logs(manifest, logged);
  if ("taskID" in manifest) yield treeProof(manifest, stories.get(manifest.taskID) ?? emptyRecord(), blobs);
  else {
    yield* ends(manifest, stories);
    yield missionTree(manifest, stories, blobs);
  }
}

/**
 * Verifies that the Mission's record of its Tasks' ends matches the Tasks' own records, and that no Task is missing.
 */
function* ends(
  { sessionID, ledgers, omitted }: MissionManifest,
  stories: ReadonlyMap<string, ArchiveRecord>,
): Generator<Finding, void, undefined> {
  const left = new Set(omitted.map(({ path }) => path));
  let [wrong, same, out] = [0, 0, 0];
  for (const { taskID, attempt, outcome, landedCommit } of stories.get(sessionID)?.told ?? []) {
    const fault = (text: string) => {
      wrong += 1;
      return bad("tasks", `${taskID}, attempt ${attempt}: ${text}`);
    };
    const story = stories.get(taskID);
    if (story === undefined || ledgers[taskID] === undefined) {
      if (left.has(`${flow}tasks/${taskID}`)) out += 1;
      else yield fault("the Mission says that it ended, but it is not in the archive");
    } else if (story.ends[attempt - 1] !== outcome)
      yield fault(`the Mission says ${outcome}, the Task ${story.ends[attempt - 1] ?? "nothing"}`);
    else if (landedCommit !== null && !story.landings.has(landedCommit))
      yield fault(`the Mission says that it landed as ${landedCommit}; the Task does not`);
    else same += 1;
  }
  const rest = out === 0 ? "" : `; ${out} of deleted Tasks`;
  if (wrong === 0)
    yield ok("tasks", `the outcomes of ${same} ${same === 1 ? "Task" : "Tasks"} match the Tasks' own records${rest}`);
}

/**
 * Whether `project/` is the tree that one of the Tasks landed; it need not be, because the user may have changed it
 * since.
 */
const missionTree = (manifest: ManifestFile, stories: ReadonlyMap<string, ArchiveRecord>, { list }: Found): Finding => {
  const got = treeOf(list, algorithmOf(manifest));
  for (const [taskID, { trees, landings, top }] of stories)
    for (const commit of top ? landings : [])
      if (trees.get(commit) === got)
        return ok("tree", `project/ is Git tree ${got}, as ${taskID} landed it in ${commit}`);
  return note(
    "tree",
    `project/ is not a tree that a Task landed: ${list.length} files, commit ${manifest.commit ?? "none"}`,
  );
};

type Found = { list: Blob[]; converted: boolean };

const algorithmOf = ({ commit }: ManifestFile) => (commit?.length === 64 ? "sha256" : "sha1");

/** Verifies that every file is as the manifest describes it, and that there are no others. */
async function* files(zip: Unzip, manifest: ManifestFile, found: Found): AsyncGenerator<Finding, void, undefined> {
  let [wrong, bytes] = [0, 0];
  const fault = (name: string, text: string) => {
    wrong += 1;
    return bad("files", `${name}: ${text}`);
  };
  const named = new Map(manifest.files.map((file) => [file.name, file]));
  if (named.size !== manifest.files.length) yield fault(manifestName, "it lists a file twice");
  const modes = new Map<string, number>();
  for (const { name, mode } of zip.entries) {
    if (modes.has(name)) yield fault(name, "it is in the ZIP twice");
    else if (!named.has(name) && name !== manifestName) yield fault(name, "it is not in the manifest");
    modes.set(name, mode);
  }
  for (const file of named.values()) {
    const mode = modes.get(file.name);
    if (mode === undefined) {
      yield fault(file.name, "it is missing");
      continue;
    }
    if (file.mode !== undefined && mode.toString(8) !== file.mode)
      yield fault(file.name, `expected mode ${file.mode}, got ${mode.toString(8)}`);
    try {
      const got = await zip.digest(file.name, file.bytes, algorithmOf(manifest));
      if (got.sha256 !== file.sha256 || got.bytes !== file.bytes)
        yield fault(
          file.name,
          `expected SHA-256 ${file.sha256}, ${file.bytes} bytes, got ${got.sha256}, ${got.bytes} bytes`,
        );
      bytes += got.bytes;
      if (file.mode === undefined) continue;
      const path = file.path ?? file.name.replace(/^project\//, "");
      found.list.push({ path, mode: gitMode(file.mode), object: got.object });
      found.converted ||= got.converted || /(^|\/)\.gitattributes$/.test(path);
    } catch (error) {
      yield fault(file.name, `it cannot be read: ${messageOf(error)}`);
    }
  }
  if (wrong === 0)
    yield ok("files", `${named.size} files, ${bytes} bytes, each with the SHA-256 in the manifest, and no other files`);
}

/** The Git mode of a file in the ZIP, in which links have permission bits that Git does not record. */
const gitMode = (mode: string): string => (mode.startsWith("12") ? "120000" : mode);

/** Verifies that logs, outputs and artifacts in the archive have the hashes that the events record. */
function* logs(
  { files: listed, omitted }: ManifestFile,
  story: Pick<ArchiveRecord, "logs" | "artifacts">,
): Generator<Finding, void, undefined> {
  const named = new Map(listed.map((file) => [file.name, file.sha256]));
  const artifacts = new Map(listed.map((file) => [file.artifactID, file.sha256]));
  const left = new Set(omitted.map(({ path }) => path));
  let [wrong, there, out] = [0, 0, 0];
  const compare = (what: string, expected: string, got: string | undefined): Finding | undefined => {
    if (got === expected) there += 1;
    else if (got === undefined && left.has(what)) out += 1;
    else {
      wrong += 1;
      return bad("logs", `${what}: expected SHA-256 ${expected}, as in the ledger, got ${got ?? "no such file"}`);
    }
    return undefined;
  };
  for (const [name, expected] of story.logs) {
    const fault = compare(name, expected, named.get(name));
    if (fault !== undefined) yield fault;
  }
  for (const name of named.keys())
    if (isLog(name) && !story.logs.has(name)) {
      wrong += 1;
      yield bad("logs", `${name}: no event refers to it`);
    }
  for (const [artifactID, expected] of story.artifacts) {
    // The manifest lists omitted artifacts by path, so any omitted artifact excuses a missing one.
    const got = artifacts.get(artifactID);
    const gone = got === undefined && omitted.some(({ path }) => isArtifact(path));
    if (gone) out += 1;
    else {
      const fault = compare(artifactID, expected, got);
      if (fault !== undefined) yield fault;
    }
  }
  if (wrong > 0) return;
  const rest = out === 0 ? "" : `; ${out} left out, see omitted in the manifest`;
  yield ok("logs", `${there} logs, outputs and artifacts have the hashes in the ledger${rest}`);
}

/** Matches files of the archive's main log, and of the logs of a Mission's Tasks. */
const isLog = (name: string): boolean => /^execution-flow\/(?:tasks\/[^/]+\/)?logs\//.test(name);
const isArtifact = (name: string): boolean => /^execution-flow\/(?:tasks\/[^/]+\/)?artifacts\//.test(name);

/**
 * Computes the Git tree of `project/`, and reports which checks passed on it and where it landed. A worktree may still
 * contain changes that the user had not committed, which a landing leaves out; then the tree equals one that was
 * committed earlier.
 */
const treeProof = (manifest: ManifestFile, story: ArchiveRecord, { list, converted }: Found): Finding => {
  const { commit } = manifest;
  const expected = commit === null ? undefined : story.trees.get(commit);
  if (commit === null || expected === undefined || !story.top)
    return note("tree", `project/ matches no tree in the events: ${list.length} files, commit ${commit ?? "none"}`);
  const got = treeOf(list, algorithmOf(manifest));
  const same = got === expected ? commit : [...story.trees].findLast(([, tree]) => tree === got)?.[0];
  if (same !== undefined) {
    const passed = [...story.checks].filter(([, { state, tree: on }]) => state === "passed" && on === got);
    const checked = passed.length === 0 ? "" : `; passed on it: ${passed.map(([id]) => id).join(", ")}`;
    const { landed } = story;
    const as = landed?.commit === same ? "" : ` as ${landed?.commit}`;
    const where = landed === undefined ? "" : `; landed${as} on ${landed.ref}`;
    return ok("tree", `project/ is Git tree ${got} of commit ${same}${checked}${where}`);
  }
  const excuse = excuseOf(manifest, story, { got, converted });
  const text = `expected project/ to be Git tree ${expected} of commit ${commit}, got ${got ?? "none"}`;
  return excuse === undefined ? bad("tree", text) : note("tree", `${text}; ${excuse}`);
};

/** Why `project/` need not equal a tree that the events name; undefined: it must. */
const excuseOf = (
  { source, complete, omitted }: ManifestFile,
  { lifecycleStatus }: ArchiveRecord,
  { got, converted }: { got: string | undefined; converted: boolean },
): string | undefined => {
  if (got === undefined) return "a name is not UTF-8";
  if (source === "directory") return "the Task worked in the user's own directory";
  if (!complete || omitted.some(({ path }) => !path.startsWith(flow))) return "files are left out";
  if (source === "commit") return undefined;
  if (lifecycleStatus !== "completed") return "the Task has not completed";
  return converted ? "Git converts files of this project on checkout" : undefined;
};
