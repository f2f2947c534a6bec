import { type CallName, callNumbers } from "../../src/process/seccomp/call.ts";

/**
 * Ways out of a sandbox, as commands. Each prints ESCAPED when it worked. `{…}` are paths of the test's: HOST a file of
 * this machine with a secret, DATA the data folder, OTHER another Task's worktree, CHECKOUT a file that only the user's
 * own checkout has, PORT the service's port, PID the service's process, COMMON the repository's own folder.
 */

const read = (path: string) => `cat '${path}' 2>/dev/null | grep -q . && echo ESCAPED`;
/** Opened for writing, and not written. */
const write = (path: string) => `( : >> '${path}' ) 2>/dev/null && echo ESCAPED`;
const ok = (command: string) => `( ${command} ) >/dev/null 2>&1 && echo ESCAPED`;

/** A system call by name; `before` is Perl that makes its arguments. */
const call = (name: CallName, before: string, args: string, worked = ">= 0") =>
  ok(
    `nr=${callNumbers[name][0]}; [ "$(uname -m)" = aarch64 ] && nr=${callNumbers[name][1]}; export nr; perl -e '${before} exit(syscall($ENV{nr}, ${args}) ${worked} ? 0 : 1)'`,
  );

export const escapes: Record<string, string> = {
  // Files of this machine.
  "read a file outside": read("{HOST}"),
  "read it through /proc/1/root": read("/proc/1/root{HOST}"),
  "read it through /proc/self/root": read("/proc/self/root{HOST}"),
  "read it through the working directory of process 1":
    "cat /proc/1/cwd/../../../../../{HOST} 2>/dev/null | grep -q . && echo ESCAPED",
  "read it by a link": "ln -s '{HOST}' link; cat link 2>/dev/null | grep -q . && echo ESCAPED; rm -f link",
  "read it by a hard link": ok("ln '{HOST}' hard && cat hard"),
  "read it by going up": "cat ../../../../../../../../../../..{HOST} 2>/dev/null | grep -q . && echo ESCAPED",
  "write it": "[ -s '{HOST}' ] && ( : >> '{HOST}' ) 2>/dev/null && echo ESCAPED",
  "list the folder it is in": "ls \"$(dirname '{HOST}')\" 2>/dev/null | grep -q secret && echo ESCAPED",
  "read /etc/shadow": read("/etc/shadow"),
  "read /etc/sudoers": read("/etc/sudoers"),
  "read the host's ssh keys": "cat /etc/ssh/ssh_host_* 2>/dev/null | grep -q PRIVATE && echo ESCAPED",
  "read private TLS keys": "ls /etc/ssl/private 2>/dev/null | grep -q . && echo ESCAPED",
  "read the settings of pip and npm": "cat /etc/pip.conf /etc/npmrc 2>/dev/null | grep -q . && echo ESCAPED",
  "read a home":
    "cat '{HOME}'/.ssh/* '{HOME}'/.npmrc '{HOME}'/.gitconfig '{HOME}'/.bashrc 2>/dev/null | grep -q . && echo ESCAPED",
  "write a home": ok("[ -s '{HOME}'/.bashrc ] && touch '{HOME}'/.sortie-escape"),
  "write a start file of cargo": ok("touch '{HOME}'/.cargo/bin/.sortie-escape"),
  "write a program of the system": write("/usr/bin/true"),
  "make a program on PATH": ok("touch /usr/local/bin/.sortie-escape && rm /usr/local/bin/.sortie-escape"),
  "replace a program of the system":
    "[ -w /usr/bin ] && ( : >/usr/bin/.sortie-escape ) 2>/dev/null && rm -f /usr/bin/.sortie-escape && echo ESCAPED",
  "change the mode of a program": ok("chmod --reference=/usr/bin/env /usr/bin/env"),
  "change the system's passwords file": write("/etc/passwd"),
  "make a file at the top": ok("touch /.sortie-escape && rm /.sortie-escape"),
  "see the disk of the machine": ok(
    "for at in /old_root /host /mnt /srv /boot /lost+found; do ls -A $at; done 2>/dev/null | grep -q .",
  ),
  "read the machine's log": "cat /var/log/* 2>/dev/null | grep -q . && echo ESCAPED",
  "reach the folder /run of the machine": "ls /run | grep -qvx sortie && echo ESCAPED",
  "see another's files in /tmp": read("{PLANTED}"),
  // The service.
  "read the data folder": "ls '{DATA}' 2>/dev/null | grep -q . && echo ESCAPED",
  "read the database": read("{DATA}/sortie.db"),
  "write the data folder": write("{DATA}/instance"),
  "read another Task's worktree": read("{OTHER}/a.txt"),
  "write another Task's worktree": write("{OTHER}/a.txt"),
  "read what only the user's checkout has": read("{CHECKOUT}"),
  "write the user's checkout": "echo x > \"$(dirname '{CHECKOUT}')/a.txt\"; [ -e '{CHECKOUT}' ] && echo ESCAPED",
  "read the service's environment":
    "for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ 2>/dev/null; done | grep -q 'PLANTED_SECRET' && echo ESCAPED",
  "find the service's process": ok("grep -qa '{NODE}' /proc/{PID}/cmdline"),
  "signal the service": ok("kill -0 {PID}"),
  "trace the service": ok('python3 -c "import ctypes;exit(0 if ctypes.CDLL(None).ptrace(16,{PID},0,0)==0 else 1)"'),
  "read the service's memory": ok("dd if=/proc/{PID}/mem bs=1 count=1"),
  "speak to the service": ok("exec 7<>/dev/tcp/127.0.0.1/{PORT}"),
  "speak to the service by IPv6": ok("exec 7<>/dev/tcp/::1/{PORT}"),
  "speak to an abstract socket": ok(
    "python3 -c \"import socket;s=socket.socket(socket.AF_UNIX);s.connect('\\\\0sortie-escape-{PORT}')\"",
  ),
  "speak to a socket file": ok("python3 -c \"import socket;s=socket.socket(socket.AF_UNIX);s.connect('{SOCKET}')\""),
  "send a packet": ok(
    "python3 -c \"import socket;s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.sendto(b'x',('8.8.8.8',53))\"",
  ),
  "see a network interface": "grep -v lo: /proc/net/dev | grep -q : && echo ESCAPED",
  "resolve a name": ok("getent hosts example.org"),
  // The runner inside.
  "signal process 1": "kill -9 1 2>/dev/null; kill -TERM 1 2>/dev/null; sleep 0.05; [ -d /proc/1 ] || echo ESCAPED",
  "open the runner's channel": "for fd in 0 1 2 9; do ( exec 7<>/proc/1/fd/$fd ) 2>/dev/null && echo ESCAPED; done",
  "open the waiter's channel": "for fd in 0 1 2 9; do ( exec 7<>/proc/$PPID/fd/$fd ) 2>/dev/null && echo ESCAPED; done",
  "trace process 1": ok('python3 -c "import ctypes;exit(0 if ctypes.CDLL(None).ptrace(16,1,0,0)==0 else 1)"'),
  "read the memory of process 1": ok("cat /proc/1/maps | grep -q ."),
  "an inherited descriptor":
    'for fd in /proc/self/fd/*; do case $(readlink $fd) in pipe:*|socket:*) [ "${fd##*/}" -gt 3 ] && echo ESCAPED ;; esac; done',
  "write the runner's program": write("/run/sortie/bash"),
  "read the runner's program": ok("cat /run/sortie/bash"),
  "make a file among the pipes": ok("touch /run/sortie/io/x"),
  "remove a pipe": ok("rm -f /run/sortie/io/0.0"),
  // Namespaces and capabilities.
  mount: ok("mount -t tmpfs none /tmp"),
  "remount the root writable": ok("mount -o remount,rw / || mount -o remount,bind,rw /usr"),
  unmount: ok("umount /proc || umount /tmp || umount -l /usr"),
  "bind the tree elsewhere": ok("mount --bind . /mnt"),
  "a user namespace": ok("unshare --user true"),
  "a user namespace as root": ok("unshare --user --map-root-user mount -t tmpfs none /tmp"),
  "a mount namespace": ok("unshare --mount true"),
  "enter the namespaces of process 1": ok("nsenter -t 1 -m -u -i -n -p true"),
  "a device": ok("mknod dev b 254 0"),
  "a disk": ok("cat /dev/vda /dev/sda /dev/nvme0n1 | head -c 1 | grep -q ."),
  chroot: ok("chroot / true"),
  capabilities: "grep -E 'Cap(Eff|Prm|Bnd|Amb):' /proc/self/status | grep -qv 0000000000000000 && echo ESCAPED",
  "new privileges": "grep -q 'NoNewPrivs:.*0' /proc/self/status && echo ESCAPED",
  "a set-user-id program": ok("[ \"$(su -c 'id -u' 2>/dev/null)\" = 0 ] && [ -r /etc/shadow ]"),
  "a setting of the kernel": ok(": >>/proc/sys/kernel/core_pattern"),
  "any setting in /proc":
    'find /proc -maxdepth 4 -path \'/proc/[0-9]*\' -prune -o -path /proc/self -prune -o -path /proc/thread-self -prune -o -type f -writable -print 2>/dev/null | while read -r f; do [ -f "$f" ] && ( : >>"$f" ) 2>/dev/null && echo "ESCAPED $f"; done',
  "the machine's memory": ok("head -c 1 /proc/kcore | grep -q . || head -c 1 /dev/mem"),
  "the kernel's messages": ok("dmesg | grep -q ."),
  "a control group": ok("mkdir /sys/fs/cgroup/escape || ls /sys/fs/cgroup | grep -q ."),
  "load a module": ok("modprobe dummy || insmod /dev/null"),
  "a fresh /proc": ok("mount -t proc proc /proc"),
  "the clock": ok("date -s @$(date +%s)"),
  "a key of the kernel": call(
    "add_key",
    '($type, $name, $value) = ("user", "sortie-escape", "x");',
    "$type, $name, $value, 1, -2",
    "> 0",
  ),
  "a key of the session": call("keyctl", "", "0, -3, 0", "> 0"),
  "the virtual machine's host": ok("perl -MSocket -e 'socket(S, 40, SOCK_STREAM, 0) or exit 1'"),
  "the kernel's ciphers": ok("perl -MSocket -e 'socket(S, 38, SOCK_SEQPACKET, 0) or exit 1'"),
  "the kernel's firewall": ok("perl -MSocket -e 'socket(S, 16, SOCK_RAW, 12) or exit 1'"),
  "requests to the kernel in a ring": call("io_uring_setup", '$ring = "\\0" x 120;', "4, $ring"),
  "page faults that a program serves": call("userfaultfd", "", "1"),
  "a namespace in a process of its own": call("clone", "", "0x10000011, 0, 0, 0, 0"),
  "a set-user-id file that stays": ok("echo x > set-id; chmod 4755 set-id; [ -u set-id ]"),
  "a file on the tmpfs of devices": ok("touch /dev/.sortie-escape && rm /dev/.sortie-escape"),
  "raw sockets": ok('python3 -c "import socket;socket.socket(socket.AF_PACKET,socket.SOCK_RAW)"'),
  // Git.
  "write the config": ok("git config core.fsmonitor 'touch {HOST}.pwned'"),
  "write the config by hand": write("{COMMON}/config"),
  "borrow objects from elsewhere": write("{COMMON}/objects/info/alternates"),
  "write the project's objects": write("{OBJECTS}/info/packs"),
  "replace .git": ok("mv .git .git-old"),
  "remove .git": ok("rm -rf .git"),
  "write .git": write(".git"),
  // What it moves are refs of the Task's own; `watched` sees those of the project.
  "move a branch": "git update-ref refs/heads/main HEAD~0; git branch escape; git tag escape",
  "read the token of a remote":
    'cat "$(git rev-parse --git-common-dir 2>/dev/null)"/config .git/config 2>/dev/null | grep -q TOKEN && echo ESCAPED',
};

/** Never tried without a sandbox, where they would do what they say. */
export const harmful = new Set([
  "write the user's checkout",
  "signal process 1",
  "trace the service",
  "trace process 1",
  "mount",
  "remount the root writable",
  "unmount",
  "bind the tree elsewhere",
  "a fresh /proc",
  "any setting in /proc",
  "load a module",
  "a namespace in a process of its own",
  "a file on the tmpfs of devices",
  "the clock",
  "a device",
  "a control group",
  "open the runner's channel",
  "open the waiter's channel",
  "replace .git",
  "remove .git",
  "move a branch",
  "write the config",
  "borrow objects from elsewhere",
  "write the project's objects",
]);
