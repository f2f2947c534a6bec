/**
 * Recognises commands that consist of one program and its words. Only such a command is certain to be what the operator
 * named: bash runs nothing besides it, and inserts nothing into it.
 */

/** Programs that run other programs named by their words: a rule about them would guarantee nothing. */
const runners = new Set(
  `sh bash zsh dash ksh ash fish eval source . exec command builtin env printenv export set declare typeset sudo doas su
   nohup nice ionice stdbuf time timeout coproc function xargs find fd parallel watch setsid script ssh chroot unshare nsenter busybox trap
   npx flock strace`.split(/\s+/),
);

/**
 * Each of these characters begins something other than a word: an expansion, a redirection, another command, a comment,
 * a keyword.
 */
const special = /[;&|<>()$`\\\n\r*?[\]{}~#!\0]/;

/** The words of a plain command; undefined: the text is not one. */
export const plainWords = (text: string): string[] | undefined => {
  const words: string[] = [];
  const whole = text.replace(/^[ \t]+|(?<![ \t])[ \t]+$/g, "");
  const part = /([ \t]+)|'([^'\n\r\0]*)'|"([^"$`\\!\n\r\0]*)"|([^ \t'"]+)/y;
  let word: string | undefined;
  for (part.lastIndex = 0; part.lastIndex < whole.length; ) {
    const found = part.exec(whole);
    if (found === null) return undefined;
    const [, space, single, double, bare] = found;
    if (space !== undefined) {
      if (word !== undefined) words.push(word);
      word = undefined;
      continue;
    }
    if (bare !== undefined && special.test(bare)) return undefined;
    word = `${word ?? ""}${single ?? double ?? bare ?? ""}`;
  }
  if (word !== undefined) words.push(word);
  const [program = ""] = words;
  // An assignment is no program, and a path could lead into the project's tree.
  return /^[A-Za-z0-9][\w.+-]*$/.test(program) && !runners.has(program) ? words : undefined;
};

/** Whether a rule can match at all: it consists of words of a plain command, in which `*` stands for one word. */
export const isCommandRule = (rule: string): boolean =>
  plainWords(rule.replaceAll(/(?<=[ \t])\*(?=[ \t]|$)/g, "x")) !== undefined;

/** Whether a rule names the whole command. */
export const isWholly = (rule: string, command: string): boolean => {
  const words = plainWords(command);
  const wanted = rule.trim().split(/[ \t]+/);
  return words?.length === wanted.length && wanted.every((one, at) => one === "*" || one === words[at]);
};
