import { resolve } from "node:path";
import { isWithin } from "../../process/sandbox/system-mount.ts";
import { parseConfig, partsOf, type Setting } from "../git/config-file.ts";

/**
 * Decides whether a change of a git configuration may well be the user's: its settings run no program, name no file,
 * and send nothing elsewhere. This is a list of harmless settings: a setting that is not on it, whatever git or another
 * tool does with it, must stay as it was, in its order.
 */

/** Bytes. A change to a longer file is never harmless. */
const longest = 256 * 1024;

const yesNo = /^(?:true|false|yes|no|on|off|1|0|)$/i;
/** Words, numbers, times, colours: not a path out of the repository, an option or a command. */
const words = /^(?!-)[\w.,:+@%=# -]{0,200}$/;
const sortKey = /^-?[\w:.]{0,100}$/;
const branchName = /^refs\/heads\/[^\s~^:?*[\\]{1,300}$/;
const refspec = /^\+?refs\/(?:heads|tags)\/[\w./*+@-]+:refs\/(?:remotes|tags)\/[\w./*+@-]+$/;
const text = /^[^\0]{0,4000}$/s;

/** git's own transports, and paths. A name before "::", or an option, would run a program instead. */
const address = /^(?:(?:https?|ssh|git|file):\/\/[^\s-]\S{0,2000}|[\w.-]+@[\w.-]+:\S{0,2000}|\.{0,2}\/\S{0,2000})$/i;

/** git's own merge strategies; for any other name git runs `git merge-<name>`. */
export const ownStrategies = /^(?:ort|recursive|resolve|octopus|ours|subtree)$/;

const of = (section: string, keys: string, value: RegExp): [string, RegExp][] =>
  keys.split(" ").map((key) => [`${section}.${key}`, value]);

/** The harmless values, by section and key in lower case, with `*` for a subsection. */
const harmless = new Map<string, RegExp>([
  ["core.bare", /^false$/i],
  ["core.fsmonitor", yesNo],
  ...of("core", "filemode ignorecase precomposeunicode symlinks quotepath preloadindex untrackedcache", yesNo),
  ...of("core", "commitgraph multipackindex splitindex sparsecheckout sparsecheckoutcone trustctime", yesNo),
  ...of("core", "logallrefupdates autocrlf eol safecrlf whitespace abbrev compression bigfilethreshold", words),
  ...of("core", "repositoryformatversion checkstat commentchar commentstring hidedotfiles", words),
  ["extensions.worktreeconfig", yesNo],
  ["extensions.relativeworktrees", yesNo],
  ...of("user", "name email", text),
  ["branch.autosetupmerge", words],
  ["branch.autosetuprebase", words],
  ["branch.sort", sortKey],
  ["branch.*.merge", branchName],
  ["branch.*.rebase", words],
  ["branch.*.description", text],
  ...of("branch.*", "vscode-merge-base gh-merge-base github-pr-owner-number github-pr-base-branch", /^[\w./#@+-]*$/),
  ...of("remote.*", "prune prunetags skipfetchall skipdefaultupdate", yesNo),
  ["remote.*.tagopt", /^--(?:no-)?tags$/],
  ["remote.*.gh-resolved", words],
  ...of("submodule", "recurse fetchjobs propagatebranches", words),
  ...of("submodule.*", "active fetchrecursesubmodules shallow", yesNo),
  ["submodule.*.update", /^(?:checkout|rebase|merge|none)$/],
  ["submodule.*.branch", words],
  ["submodule.*.ignore", words],
  ...of("pull", "rebase ff", words),
  ["push.default", words],
  ...of("push", "autosetupremote followtags useforceifincludes", yesNo),
  ...of("fetch", "prune prunetags parallel writecommitgraph showforcedupdates output recursesubmodules", words),
  ["fetch.unpacklimit", words],
  ...of("rebase", "autosquash autostash stat updaterefs abbreviatecommands forkpoint rebasemerges backend", words),
  ["rebase.missingcommitscheck", words],
  ["init.defaultbranch", words],
  ...of("gc", "auto autodetach autopacklimit packrefs cruftpacks pruneexpire worktreepruneexpire logexpiry", words),
  ...of("gc", "aggressivedepth aggressivewindow reflogexpire reflogexpireunreachable rerereresolved", words),
  ...of("gc", "rerereunresolved writecommitgraph bigpackthreshold maxcruftsize", words),
  ...of("rerere", "enabled autoupdate", yesNo),
  ["maintenance.auto", yesNo],
  ["maintenance.autodetach", yesNo],
  ["maintenance.strategy", words],
  ["maintenance.*.enabled", yesNo],
  ...of("maintenance.*", "schedule auto", words),
  ...of("index", "threads version sparse recordendofindexentries recordoffsettable skiphash", words),
  ...of("feature", "manyfiles experimental", yesNo),
  ...of("pack", "threads depth window windowmemory deltacachesize compression usesparse writebitmaps", words),
  ...of("merge", "conflictstyle ff log renames directoryrenames stat autostash verbosity renamelimit", words),
  ...of("diff", "algorithm renames renamelimit colormoved colormovedws noprefix mnemonicprefix context", words),
  ...of("diff", "interhunkcontext indentheuristic submodule ignoresubmodules wserrorhighlight relative", words),
  ...of("status", "short branch showuntrackedfiles relativepaths aheadbehind renames showstash", words),
  ...of("log", "date decorate abbrevcommit follow graphcolors mailmap", words),
  ...of("commit", "verbose status cleanup", words),
  ["tag.sort", sortKey],
  ["tag.forcesignannotated", yesNo],
  ...of("stash", "showpatch showstat showincludeuntracked", yesNo),
  ...of("grep", "linenumber column patterntype extendedregexp fullname threads", words),
  ...of("column", "ui branch tag status", words),
  ...of("versionsort", "suffix prereleasesuffix", words),
  ["blame.ignorerevsfile", words],
  ["lfs.repositoryformatversion", words],
  ["lfs.*.access", words],
  ["lfs.*.locksverify", yesNo],
  ...of("gui", "wmstate geometry spellingdictionary displayuntracked commitmsgwidth diffcontext", words),
  ...of("gitflow.branch", "master main develop", words),
  ...of("gitflow.prefix", "feature bugfix release hotfix support versiontag", /^[\w./-]*$/),
  // Options of a series of picks, which git keeps in a file of this form.
  ...of("options", "no-commit edit allow-empty allow-empty-message keep-redundant-commits signoff", yesNo),
  ...of("options", "drop-redundant-commits record-origin allow-ff allow-rerere-auto mainline", words),
  ...of("options", "strategy-option default-msg-cleanup commit-use-reference", words),
  ["options.strategy", ownStrategies],
]);

/** Sections in which a setting is harmless if its value is words. */
const wordSections = new Set(["advice", "color"]);

type Context = {
  /** The repository is new: an address in it redirects no earlier one. */
  isNew?: boolean;
  /** For a submodule: its Git directory, and the folder in which its work tree may be. */
  module?: { gitDir: string; top: string } | undefined;
};

const isPlain = ({ name, value }: Setting, { module }: Context): boolean => {
  const { section, sub, key } = partsOf(name);
  if (wordSections.has(section) && words.test(value)) return true;
  if (name === "core.worktree" && module !== undefined)
    return !value.startsWith("/") && isWithin(module.top, resolve(module.gitDir, value));
  return harmless.get(sub === undefined ? name : `${section}.*.${key}`)?.test(value) ?? false;
};

/** The subsections of the section `wanted` that have an address. */
const addressed = (settings: readonly Setting[], wanted: string): Set<string> =>
  new Set(
    settings.flatMap(({ name }) => {
      const { section, sub, key } = partsOf(name);
      return section === wanted && key === "url" && sub !== undefined ? [sub] : [];
    }),
  );

/**
 * Tracking is harmless if it names a remote that was there before. Addresses of remotes are not: the next push, with
 * what was committed since, goes there. A submodule's address is used only once, to fetch what the commit names.
 */
const judgeOf = (before: readonly Setting[], after: readonly Setting[], { isNew = false, ...context }: Context) => {
  const remotes = addressed(isNew ? after : before, "remote");
  const submodules = addressed(before, "submodule").intersection(addressed(after, "submodule"));
  return (setting: Setting): boolean => {
    if (isPlain(setting, context)) return true;
    const { section, sub = "", key } = partsOf(setting.name);
    const { value } = setting;
    switch (`${section}.${key}`) {
      case "remote.url":
        return isNew && address.test(value);
      case "submodule.url":
        return !submodules.has(sub) && address.test(value);
      case "remote.fetch":
        return refspec.test(value);
      case "remote.pushdefault":
      case "branch.remote":
      case "branch.pushremote":
        return value === "." || remotes.has(value);
      default:
        return false;
    }
  };
};

/** The settings that must stay as they were: all that are not harmless, in their order. */
const strict = (settings: readonly Setting[], isHarmless: (setting: Setting) => boolean): string =>
  JSON.stringify(settings.filter((setting) => !isHarmless(setting)));

/** Whether the change of a configuration is harmless. `before` undefined: there was no file, or it was not read. */
export const isHarmlessConfig = (before: Buffer | undefined, after: Buffer, context: Context = {}): boolean => {
  if (after.length > longest || (before?.length ?? 0) > longest) return false;
  const [old, now] = [parseConfig(before ?? Buffer.alloc(0)), parseConfig(after)];
  if (old === undefined || now === undefined) return false;
  const isHarmless = judgeOf(old, now, context);
  return strict(old, isHarmless) === strict(now, isHarmless);
};
