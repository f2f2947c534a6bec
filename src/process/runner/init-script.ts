import { shellQuote } from "../../shell-quote.ts";
import type { Start } from "./frame.ts";

/** The script of a sandbox's first process, and the script that turns into a command. */

/** Closes inherited file descriptors: an open folder among them would be a way out of the sandbox. */
export const closeOthers =
  'for fd in /proc/self/fd/*; do fd=${fd##*/}; [ "$fd" -le 2 ] 2>/dev/null || eval "exec $fd>&-" 2>/dev/null; done';

/**
 * Each command has a separate waiter process, because bash cannot read and wait at once. Waiter and reader run a copy
 * of bash whose file is not readable, so that commands cannot inspect them; commands inherit none of their descriptors.
 * While commands are held the waiters continue, so that a held command can be ended. A command that is stopped before
 * it has reported its own start is killed by its waiter (`c`).
 *
 * With `n` a command's processes are made before the command is known (docs/decisions/0275): they read it from the pipe
 * that is otherwise never written. A waiter that sees no process but itself reports `alone`. The work that these shells
 * avoid is described in docs/decisions/0276.
 */
export const innerScript = (io: string, prelude = ""): string => `${closeOthers}
exec 9>&1 >/dev/null 2>&1
umask 022
CHILD_MAX=64
${prelude}
set -m
echo ready >&9
while IFS=' ' read -r verb a b; do
  case $verb in
    r|n) [ $verb = n ] || IFS= read -r -N "$b" job
       { set -m
         waiter=$BASHPID
         { exec </dev/null >'${io}'/$a.0 2>'${io}'/$a.1
           if [ $verb = n ]; then
             exec 4<'${io}'/$a.2
             echo "p $a $waiter" >&9
             IFS= read -r -u 4 b && [ "$b" ] && IFS= read -r -N "$b" -u 4 job || exit
             exec 4<&-
           fi
           exec 3>'${io}'/$a.2
           echo "s $a $BASHPID $waiter" >&9
           exec 9>&-
           eval "$job"; } &
         set +m
         wait $!
         code=$?
         kill -0 -1 || code="$code alone"
         echo "x $a $code" >&9; } &
       waiters[a]=$! ;;
    c) for stat in /proc/[0-9]*/stat; do
         read -r pid _ _ parent _ <"$stat" && [ "$parent" = "\${waiters[a]}" ] && kill -9 -- "-$pid" "$pid"
       done
       kill -9 -- "-\${waiters[a]}" "\${waiters[a]}"
       echo "x $a 137" >&9 ;;
    k) kill -9 -- "-$a" ;;
    q) kill -9 -1
       echo "q $a" >&9 ;;
    h) kill -STOP -1
       kill -CONT $(jobs -p) ;;
    g) kill -CONT -1 ;;
    w) if kill -0 "\${b:-\${waiters[a]}}"; then :; else echo "w $a $b" >&9; fi ;;
  esac
done
`;

/** The script with which a child becomes exactly the command, with its own environment. */
export const commandScript = ({ file, args, cwd, env }: Start): string => {
  const plain = Object.entries(env).filter(([name]) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name));
  const odd = Object.entries(env).filter(([name]) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name));
  const exports = plain.map(([name, value]) => `${name}=${shellQuote(value)}`).join(" ");
  const hidden = ["LC_ALL", "OLDPWD"].filter((name) => !(name in env)).join(" ");
  const through =
    odd.length === 0 ? "" : `env ${odd.map(([name, value]) => shellQuote(`${name}=${value}`)).join(" ")} `;
  return [
    `cd -- ${shellQuote(cwd)} 2>&2 || exit 126`,
    ...(hidden === "" ? [] : [`export -n ${hidden}`]),
    ...(exports === "" ? [] : [`export ${exports}`]),
    `exec ${through}${[file, ...args].map(shellQuote).join(" ")}`,
  ].join("\n");
};
