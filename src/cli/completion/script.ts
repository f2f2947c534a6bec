import { shellQuote } from "../../shell-quote.ts";
import type { Source, Table, Word } from "./table.ts";

/**
 * The completion scripts for bash, zsh and fish. Each walks over the words before the cursor to find the command (`at`)
 * and the number of its arguments so far (`n`), then offers options, the value of the preceding option, or the next
 * argument. Ids are requested from the service, which has 300 ms to answer; everything else is in the script, so that
 * Tab starts no process.
 */

const names = (of: readonly Word[]): string => of.map(([name]) => name).join(" ");

const isWords = (source: Source | null): source is readonly Word[] => Array.isArray(source);

/** `case` patterns that skip an option and its value. */
const valuedFlags = ({ values }: Table): string => values.flatMap(({ flags }) => flags).join("|");

/** `case` patterns of the command and the word before the cursor. */
const afterFlags = ({ at, flags }: Table["values"][number]): string =>
  flags.map((flag) => `${at === undefined ? "*" : shellQuote(at)},${flag}`).join("|");

const commandCases = ({ commands }: Table): string =>
  commands.map((path) => shellQuote(path.includes(" ") ? path : ` ${path}`)).join("|");

/** The walk, in syntax that bash and zsh share; `word` is the word at `i`. */
const step = (table: Table): string => `    if [[ -n $skip ]]; then skip=; continue; fi
    case $word in
      # An address that the shell took apart at its colons.
      ':'|'='|${valuedFlags(table)}) skip=1; continue ;;
      -*) continue ;;
    esac
    case "$at $word" in
      ${commandCases(table)}) at="\${at:+$at }$word" ;;
      *) n=$((n + 1)) ;;
    esac`;

export const bash = (table: Table): string => {
  const give = (source: Source | null): string =>
    source === null ? "return" : isWords(source) ? `words=${shellQuote(names(source))}` : `kind=${source}`;
  return `# sortie completion bash; load it with: source <(sortie completion bash)
_sortie() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]}
  local at= word skip= words= kind= n=0 i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
${step(table)}
  done
  case "$at,$prev" in
${table.values.map((value) => `    ${afterFlags(value)}) ${give(value.source)} ;;`).join("\n")}
    *)
      if [[ $cur == -* ]]; then
        case $at in
${table.options.map(({ at, words }) => `          ${shellQuote(at)}) words=${shellQuote(names(words))} ;;`).join("\n")}
        esac
      else
        case $at:$n in
${table.places.map(({ at, n, source }) => `          ${shellQuote(`${at}:${n}`)}) ${give(source)} ;;`).join("\n")}
        esac
      fi ;;
  esac
  local IFS=$'\\n'
  case $kind in
    files) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")); return ;;
    folders) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur")); return ;;
    ?*) words=$(sortie completion-ids "$kind" "$COMP_LINE" 2>/dev/null | cut -f1) ;;
    *) words=\${words// /$'\\n'} ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _sortie sortie
`;
};

export const zsh = (table: Table): string => {
  /** `name:meaning`, the form that `_describe` reads. */
  const pair = ([name, meaning]: Word): string =>
    shellQuote(`${name.replaceAll(":", "\\:")}${meaning === "" ? "" : `:${meaning}`}`);
  const list = (of: readonly Word[]): string => `found=(${of.map(pair).join(" ")})`;
  const give = (source: Source | null): string =>
    source === null ? "return" : isWords(source) ? list(source) : `kind=${source}`;
  return `#compdef sortie
# sortie completion zsh; load it with: source <(sortie completion zsh), after compinit
_sortie() {
  local cur=\${words[CURRENT]} prev=\${words[CURRENT-1]} at= word skip= kind=
  local -i n=0 i
  local -a found
  for ((i = 2; i < CURRENT; i++)); do
    word=\${words[i]}
${step(table)}
  done
  case "$at,$prev" in
${table.values.map((value) => `    ${afterFlags(value)}) ${give(value.source)} ;;`).join("\n")}
    *)
      if [[ $cur == -* ]]; then
        case $at in
${table.options.map(({ at, words }) => `          ${shellQuote(at)}) ${list(words)} ;;`).join("\n")}
        esac
      else
        case $at:$n in
${table.places.map(({ at, n, source }) => `          ${shellQuote(`${at}:${n}`)}) ${give(source)} ;;`).join("\n")}
        esac
      fi ;;
  esac
  case $kind in
    files) _files; return ;;
    folders) _files -/; return ;;
    ?*) found=("\${(@f)$(sortie completion-ids $kind "$BUFFER" 2>/dev/null)}"); found=("\${(@)found/$'\\t'/:}") ;;
  esac
  [[ -n "\${found[1]}" ]] && _describe -V sortie found
}
if [[ $funcstack[1] == _sortie ]]; then _sortie "$@"; else compdef _sortie sortie; fi
`;
};

export const fish = (table: Table): string => {
  const text = (value: string): string => `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const list = (of: readonly Word[]): string =>
    `printf '%s\\t%s\\n' ${of.map(([name, meaning]) => `${text(name)} ${text(meaning)}`).join(" ")}`;
  const give = (source: Source | null): string => {
    if (source === null) return "true";
    if (isWords(source)) return list(source);
    if (source === "files") return "__fish_complete_path (commandline -ct)";
    if (source === "folders") return "__fish_complete_directories (commandline -ct)";
    return `sortie completion-ids ${source} (commandline -cp) 2>/dev/null`;
  };
  const fishFlags = ({ at, flags }: Table["values"][number]): string =>
    flags.map((flag) => text(`${at ?? "*"},${flag}`)).join(" ");
  const valued = table.values.flatMap(({ flags }) => flags).join(" ");
  return `# sortie completion fish; load it with: sortie completion fish | source
function __sortie_complete
    set -l at ''
    set -l n 0
    set -l skip ''
    set -l typed (commandline -opc)
    for word in $typed[2..-1]
        if test -n "$skip"
            set skip ''
            continue
        end
        switch $word
            case ${valued}
                set skip 1
                continue
            case '-*'
                continue
        end
        switch "$at $word"
            case ${table.commands.map((path) => text(path.includes(" ") ? path : ` ${path}`)).join(" ")}
                set at (string trim "$at $word")
            case '*'
                set n (math $n + 1)
        end
    end
    switch "$at,$typed[-1]"
${table.values.map((value) => `        case ${fishFlags(value)}\n            ${give(value.source)}\n            return`).join("\n")}
    end
    if string match -q -- '-*' (commandline -ct)
        switch $at
${table.options.map(({ at, words }) => `            case ${text(at)}\n                ${list(words)}`).join("\n")}
        end
        return
    end
    switch "$at:$n"
${table.places.map(({ at, n, source }) => `        case ${text(`${at}:${n}`)}\n            ${give(source)}`).join("\n")}
    end
end
complete -c sortie -f -a '(__sortie_complete)'
`;
};
