import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { compileFilter } from "../../src/process/seccomp/bpf.ts";
import { profile } from "../../src/process/seccomp/profile.ts";
import { findProgram } from "../../src/process/sandbox/sandbox.ts";

/**
 * `run` for the engine of `harness/image.ts`: what a rootless podman does with these arguments, by this machine's
 * bubblewrap. Like podman's, its program is no parent of what runs: ending that program ends nothing. It takes every
 * argument that it knows and refuses all others.
 */
export const runsContainers = (folder: string, root: string): string => {
  const filter = join(folder, "filter.bpf");
  writeFileSync(filter, compileFilter(profile, process.arch) ?? "");
  const bwrap = findProgram("bwrap", process.env["PATH"] ?? "") ?? "bwrap";
  return `
if [ "$1" = info ]; then echo true; exit; fi
if [ "$1" = ps ]; then cat '${folder}/left' 2>/dev/null; exit 0; fi
if [ "$1" = run ]; then
  shift
  places=() net=() vars=() at=/ entry=
  while [ $# -gt 0 ]; do
    case $1 in
      --rm | --interactive | --read-only | --read-only-tmpfs=false) ;;
      --name | --label | --user | --userns | --shm-size | --sysctl) shift ;;
      --pull) [ "$2" = never ] || exit 125; shift ;;
      --log-driver) [ "$2" = none ] || exit 125; shift ;;
      --ipc) [ "$2" = private ] || exit 125; shift ;;
      --cap-drop) [ "$2" = all ] || exit 125; shift ;;
      --security-opt) shift ;;
      --network) [ "$2" = host ] || net=(--unshare-net); shift ;;
      --tmpfs) places+=("$(tr -cd / <<<"\${2%%:*}" | wc -c) tmpfs - \${2%%:*}"); shift ;;
      --mount) mode=bind; case $2 in *,readonly) mode=ro-bind ;; esac
        source=\${2#*source=}; source=\${source%%\\"*}; target=\${2#*target=}; target=\${target%%[\\",]*}
        places+=("$(tr -cd / <<<"$target" | wc -c) $mode $source $target"); shift ;;
      --env) vars+=(--setenv "\${2%%=*}" "\${2#*=}"); shift ;;
      --workdir) at=$2; shift ;;
      --entrypoint) entry=$2; shift ;;
      -*) echo "unknown flag: $1" >&2; exit 125 ;;
      *) break ;;
    esac
    shift
  done
  shift
  args=()
  for top in '${root}'/*; do
    [ -L "$top" ] && args+=(--symlink "$(readlink "$top")" "/\${top##*/}") || args+=(--ro-bind "$top" "/\${top##*/}")
  done
  while read -r _ mode source target; do
    # An engine makes what it mounts over.
    top=\${target#/}; top=\${top%%/*}
    if [ -d '${root}'/"$top" ]; then
      if [ $mode = tmpfs ] || [ -d "$source" ]; then mkdir -p '${root}'"$target"; else mkdir -p '${root}'"\${target%/*}"; : >>'${root}'"$target"; fi
    fi
    [ $mode = tmpfs ] && args+=(--perms 1777 --tmpfs "$target") || args+=(--$mode "$source" "$target")
  done < <(printf '%s\n' "\${places[@]}" | sort -n -s -k1,1)
  exec ${bwrap} --unshare-user --unshare-pid --unshare-ipc --unshare-uts "\${net[@]}" --cap-drop ALL --as-pid-1 --clearenv \
    --setenv PATH /opt/tool/bin:/usr/local/bin:/usr/bin:/bin "\${vars[@]}" --seccomp 9 "\${args[@]}" \
    --proc /proc --remount-ro /proc --dev /dev --remount-ro / --chdir "$at" -- "$entry" "$@" 9<'${filter}'
fi
`;
};
