import { availableParallelism } from "node:os";

/**
 * The environment and settings of every git process of the service, on this machine and in sandboxes: an environment
 * made from nothing, and no hooks, filters, pagers or network, whatever a repository's settings say.
 */

export type Author = { name: string; email: string };

export const defaultAuthor: Author = { name: "Sortie", email: "sortie@localhost" };

export const defaultPath = "/usr/local/bin:/usr/bin:/bin";

export const outputBound = 64 * 1024 * 1024;

export const defaultTimeoutMs = 30_000;

/**
 * Milliseconds without progress: a large repository takes its time, but a git that waits for a FIFO makes no progress.
 */
export const defaultIdleMs = 30_000;

export const environment = {
  HOME: "/nonexistent",
  LC_ALL: "C",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_TERMINAL_PROMPT: "0",
  GIT_OPTIONAL_LOCKS: "0",
  GIT_PAGER: "cat",
  GIT_EDITOR: ":",
  GIT_SEQUENCE_EDITOR: ":",
  GIT_ASKPASS: "/bin/false",
  SSH_ASKPASS: "/bin/false",
  GIT_SSH_COMMAND: "/bin/false",
  GIT_ALLOW_PROTOCOL: "none",
  GIT_NO_REPLACE_OBJECTS: "1",
  GIT_NO_LAZY_FETCH: "1",
  GIT_ATTR_NOSYSTEM: "1",
  GIT_LITERAL_PATHSPECS: "1",
};

export const settings = [
  "core.fsmonitor=false",
  "core.hooksPath=/dev/null",
  "core.pager=cat",
  "core.editor=:",
  "diff.external=",
  "core.sshCommand=/bin/false",
  "credential.helper=",
  "commit.gpgSign=false",
  "tag.gpgSign=false",
  "log.showSignature=false",
  "gpg.program=/bin/false",
  "gpg.openpgp.program=/bin/false",
  "gpg.ssh.program=/bin/false",
  "gpg.ssh.defaultKeyCommand=/bin/false",
  "gpg.x509.program=/bin/false",
  "core.alternateRefsCommand=",
  "protocol.allow=never",
  "submodule.recurse=false",
  // Otherwise status, diff and commit start git inside a submodule, whose own configuration names programs.
  "diff.ignoreSubmodules=all",
  "safe.bareRepository=explicit",
  "gc.auto=0",
  "maintenance.auto=false",
  "core.attributesFile=/dev/null",
  "core.excludesFile=/dev/null",
  // Larger files are packed and passed on as they are: to find differences, git holds ten files at once, and needs
  // forty bytes for each line of a text.
  "core.bigFileThreshold=32m",
  // Checking out a worktree creates many files, and one worker would make its system calls one by one.
  `checkout.workers=${Math.min(availableParallelism(), 8)}`,
].flatMap((setting) => ["-c", setting]);

/** Subcommands that could run a program of the project's to show a difference. */
const showing = new Set([
  "diff",
  "log",
  "show",
  "diff-tree",
  "diff-index",
  "diff-files",
  "format-patch",
  "whatchanged",
]);

/** The arguments behind the flags, extended so that no program of the project's shows a difference. */
export const withoutPrograms = (args: readonly string[]): readonly string[] => {
  const [subcommand = "", ...rest] = args;
  return showing.has(subcommand) ? [subcommand, "--no-ext-diff", "--no-textconv", ...rest] : args;
};

export const environmentOf = (path: string, author: Author): Record<string, string> => ({
  ...environment,
  PATH: path,
  GIT_AUTHOR_NAME: author.name,
  GIT_AUTHOR_EMAIL: author.email,
  GIT_COMMITTER_NAME: author.name,
  GIT_COMMITTER_EMAIL: author.email,
});

/** Uses environment variables, not `-c`, because names may contain `=`. */
export const blanking = (keys: readonly string[]): Record<string, string> => {
  if (keys.length === 0) return {};
  const env: Record<string, string> = { GIT_CONFIG_COUNT: String(keys.length) };
  for (const [index, key] of keys.entries()) {
    env[`GIT_CONFIG_KEY_${index}`] = key;
    env[`GIT_CONFIG_VALUE_${index}`] = harmless(key);
  }
  return env;
};

/**
 * The value that replaces a blanked setting. A blank merge driver would take one side and report success; one that
 * fails leaves a visible conflict.
 */
const harmless = (key: string): string => {
  if (key.endsWith(".required")) return "false";
  if (key.endsWith(".driver")) return "/bin/false";
  // Configured hooks (git 2.54) are shell commands; one that fails would stop the git command.
  return key.startsWith("hook.") ? ":" : "";
};
