/**
 * Ways out by the kernel: each reaches for another thing of it. Written as the others are (escapes.ts), and harmless
 * where nothing keeps them in, so that each is also tried without a sandbox, where it has to work. `{…}` are the
 * test's: VICTIM a process of the same user outside, with a secret file open as descriptor 7 and a terminal of its own;
 * SHM and QUEUE a shared memory segment and a message queue, UID a user of this machine.
 */

const ok = (command: string) => `( ${command} ) >/dev/null 2>&1 && echo ESCAPED`;
const read = (path: string) => ok(`head -c 1 ${path} | grep -q .`);
/** Opened for writing, and not written. */
const write = (path: string) => ok(`: >> ${path}`);

/** Numbers of system calls on x64 and on arm64. */
const numbers = {
  bpf: [321, 280],
  capset: [126, 91],
  clock_adjtime: [305, 266],
  fanotify_init: [300, 262],
  fsopen: [430, 430],
  kcmp: [312, 272],
  mount_setattr: [442, 442],
  move_pages: [279, 239],
  mq_open: [240, 180],
  open_by_handle_at: [304, 265],
  open_tree: [428, 428],
  perf_event_open: [298, 241],
  pidfd_getfd: [438, 438],
  pidfd_open: [434, 434],
  prctl: [157, 167],
  process_vm_readv: [310, 270],
  ptrace: [101, 117],
  setgroups: [116, 159],
  sethostname: [170, 161],
  setxattr: [188, 5],
  shmat: [30, 196],
  shmdt: [67, 197],
  syslog: [103, 116],
} as const;

/** Perl that calls by name: `&call("pidfd_open", 1, 0)`. */
const perl = (program: string): string =>
  ok(
    `perl -MSocket -MFcntl -e '$arm = \`uname -m\` =~ /aarch64/; %nr = (${Object.entries(numbers)
      .map(([name, [x64, arm64]]) => `${name} => $arm ? ${arm64} : ${x64}`)
      .join(", ")}); sub call { my $name = shift; $! = 0; return syscall($nr{$name}, @_) } ${program}'`,
  );
/** Worked: the call gave no error. */
const calls = (name: keyof typeof numbers, args: string, before = "") =>
  perl(`${before} exit(call("${name}", ${args}) >= 0 ? 0 : 1)`);
/** With arguments that cannot do anything: what is refused for want of rights says so, anything else got past that. */
const passes = (name: keyof typeof numbers, args: string, before = "") =>
  perl(`${before} call("${name}", ${args}); exit($!{EPERM} || $!{ENOSYS} || $!{EACCES} ? 1 : 0)`);
const socket = (family: number, type: number, protocol: number, then = "1") =>
  perl(`socket(S, ${family}, ${type}, ${protocol}) or exit 1; exit((${then}) ? 0 : 1)`);

export const kernelEscapes: Record<string, string> = {
  // A process outside.
  "signal a process": ok("kill -0 {VICTIM}"),
  "signal a process group": ok("kill -0 -- -{VICTIM}"),
  "hold a process by descriptor": calls("pidfd_open", "{VICTIM}, 0"),
  "take a descriptor out of a process": perl(
    '$p = call("pidfd_open", {VICTIM}, 0); exit($p >= 0 && call("pidfd_getfd", $p, 7, 0) >= 0 ? 0 : 1)',
  ),
  "read the memory of a process by call": perl(
    'open F, "/proc/{VICTIM}/maps" or exit 1; ($from) = (<F> =~ /^([0-9a-f]+)/); $b = "\\0" x 8; $l = pack("PQ", $b, 8); $r = pack("QQ", hex $from, 8); exit(call("process_vm_readv", {VICTIM}, $l, 1, $r, 1, 0) == 8 ? 0 : 1)',
  ),
  "seize a process": perl(
    'exit(call("ptrace", 0x4206, {VICTIM}, 0, 0) == 0 && (call("ptrace", 17, {VICTIM}, 0, 0), 1) ? 0 : 1)',
  ),
  "compare two processes": calls("kcmp", "{VICTIM}, {VICTIM}, 2, 0, 0"),
  "count what a process does": calls(
    "perf_event_open",
    "$a, {VICTIM}, -1, -1, 0",
    '$a = pack("LLQ", 1, 112, 1) . "\\0" x 96;',
  ),
  "find the pages of a process": perl(
    '$s = "\\0" x 8; call("move_pages", {VICTIM}, 0, 0, 0, $s, 0); exit($!{ESRCH} || $!{EPERM} || $!{ENOSYS} ? 1 : 0)',
  ),
  "read what a process has open": ok("ls /proc/{VICTIM}/fd | grep -q 7"),
  "read a file by a process's descriptor": read("/proc/{VICTIM}/fd/7"),
  "read where a process stands": ok("readlink /proc/{VICTIM}/cwd"),
  "go through the root of a process": read("/proc/{VICTIM}/root{HOST}"),
  "see the mapped files of a process": ok("ls /proc/{VICTIM}/map_files | grep -q ."),
  "see where in the kernel a process waits": read("/proc/{VICTIM}/stack"),
  "see the registers of a process": read("/proc/{VICTIM}/syscall"),
  "choose who is killed when memory ends": write("/proc/{VICTIM}/oom_score_adj"),
  "slow down a process": ok("renice -n 1 -p {VICTIM}"),
  "move a process to another core": ok("taskset -cp 0 {VICTIM}"),
  "put back a process's disk accesses": ok("ionice -c 3 -p {VICTIM}"),
  "bound a process": ok("prlimit --pid {VICTIM} --core=0"),
  "make a process reclaim its pages": ok("echo 1 > /proc/{VICTIM}/clear_refs"),
  "have a process sent signals of a socket": perl(
    "socketpair(A, B, AF_UNIX, SOCK_STREAM, 0); exit(fcntl(A, 8, {VICTIM}) ? 0 : 1)",
  ),
  "learn a process's session": perl("exit(getpgrp({VICTIM}) > 0 ? 0 : 1)"),
  "enter the mounts of a process": ok("nsenter -t {VICTIM} -m true"),
  "enter the network of a process": ok("nsenter -t {VICTIM} -n true"),
  "enter the names of a process": ok("nsenter -t {VICTIM} -u true"),
  "type into a terminal": ok('t=$(readlink /proc/{VICTIM}/fd/0); [ -c "$t" ] && : >> "$t"'),
  // Memory that is shared.
  "a shared memory segment": perl(
    '$at = call("shmat", {SHM}, 0, 010000); exit 1 if $at == -1; call("shmdt", $at); exit 0',
  ),
  "a list of shared memory": ok("ipcs -m -i {SHM} | grep -q bytes"),
  "a message queue": calls("mq_open", "$n, 0, 0, 0", '$n = "{QUEUE}";'),
  // Its own rights.
  "more of the processor than others": ok("nice -n -5 sh -c '[ $(nice) -lt 0 ]'"),
  "a place before all others": ok("chrt -f 1 true"),
  "the disk before all others": ok("ionice -c 1 true"),
  "memory that is never swapped": ok(
    "ulimit -l 64; perl -e '$nr = `uname -m` =~ /aarch64/ ? 230 : 151; $x = \"x\" x 50_000_000; exit(syscall($nr, 3) == 0 ? 0 : 1)'",
  ),
  "be another user": perl("$> = {UID}; exit($> == {UID} ? 0 : 1)"),
  "be in another group": perl('$g = pack("L", {UID}); exit(call("setgroups", 1, $g) == 0 ? 0 : 1)'),
  "capabilities back": perl(
    '$h = pack("LL", 0x20080522, 0); $d = pack("L6", 0xffff, 0xffff, 0xffff, 0, 0, 0); exit(call("capset", $h, $d) == 0 ? 0 : 1)',
  ),
  "drop a capability of the bounding set": calls("prctl", "24, 39, 0, 0, 0"),
  // Files.
  "give a file away": ok("touch given && chown {UID} given"),
  "a program with capabilities": calls(
    "setxattr",
    "$f, $n, $v, 20, 0",
    'open F, ">capable"; close F; ($f, $n) = ("capable", "security.capability"); $v = pack("L5", 0x02000001, 1024, 0, 0, 0);',
  ),
  "marks that only the system sets": calls(
    "setxattr",
    "$f, $n, $n, 4, 0",
    'open F, ">marked"; close F; ($f, $n) = ("marked", "trusted.sortie");',
  ),
  "a file that cannot be removed": ok("touch fast && chattr +i fast && chattr -i fast"),
  "a device of characters": ok("mknod null c 1 3 && head -c 1 null >/dev/null && rm null"),
  "a file by its number": perl(
    'opendir D, "."; open M, "<", "."; $h = pack("LlLL", 8, 1, 2, 0); $fd = call("open_by_handle_at", fileno(M), $h, 0); exit($fd >= 0 ? 0 : 1)',
  ),
  "that a file exists": ok("[ -e '{HOST}' ]"),
  // Namespaces and mounts, by calls.
  "a network namespace": ok("unshare --net true"),
  "a namespace of processes": ok("unshare --pid --fork true"),
  "a namespace of messages": ok("unshare --ipc true"),
  "a namespace of names": ok("unshare --uts true"),
  "a namespace of control groups": ok("unshare --cgroup true"),
  "a namespace of clocks": ok("unshare --time true"),
  "a file system of its own": calls("fsopen", "$n, 0", '$n = "tmpfs";'),
  "a copy of a mount": calls("open_tree", "-100, $p, 1", '$p = "/";'),
  "a mount made writable": passes("mount_setattr", "-1, $p, 0x1000, $a, 32", '$p = ""; $a = "\\0" x 32;'),
  // The machine.
  "its name": calls("sethostname", "$n, length $n", "chomp($n = `uname -n`);"),
  "its clock, slowly": passes("clock_adjtime", "0, $t", '$t = pack("L", 0x2000) . "\\0" x 300;'),
  "a program in the kernel": calls("bpf", "0, $a, 48", '$a = pack("L4", 2, 4, 8, 1) . "\\0" x 32;'),
  "every file that is opened": calls("fanotify_init", "4, 0"),
  "its messages by call": calls("syslog", "3, $b, 100", '$b = "\\0" x 100;'),
  "its devices' events": socket(16, 3, 15),
  "its sockets, listed": socket(16, 3, 4),
  "its audit": socket(16, 3, 9),
  "its processes' events": socket(16, 2, 11, "bind(S, pack('SSLL', 16, 0, 0, 1))"),
  "its keys for networks": socket(16, 3, 6),
  "a packet of any kind": socket(2, 3, 1),
  "a mark on packets": socket(2, 2, 0, "setsockopt(S, 1, 36, 7)"),
  "a port that is the system's": socket(2, 1, 0, "bind(S, sockaddr_in(901, INADDR_LOOPBACK))"),
  "the addresses of the kernel": ok("grep -qv '^0000000000000000' /proc/kallsyms"),
  "the kernel's memory, as it is given out": read("/proc/vmallocinfo"),
  "the kernel's stores": read("/proc/slabinfo"),
  "anything of /proc that is root's alone": ok(
    'for f in /proc/*; do [ -f $f ] && [ -z "$(find $f -perm -o=r)" ] && timeout 1 head -c 1 $f | grep -q . && exit 0; done; exit 1',
  ),
  "what the machine runs on": ok("ls /sys/class | grep -q ."),
  "the kernel's own files": ok("ls /sys/kernel/debug /sys/kernel/tracing /sys/kernel/security | grep -q ."),
  "a virtual machine": ok(": <> /dev/kvm"),
  "a disk made of a file": ok(": <> /dev/loop-control"),
  "a file system that a program serves": ok(": <> /dev/fuse"),
  "a network that a program serves": ok(": <> /dev/net/tun"),
  "the kernel's log": write("/dev/kmsg"),
};
