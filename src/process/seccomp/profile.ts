import type { CallName } from "./call.ts";

/**
 * The profile in use: which system calls are refused to the commands of a tier 1 sandbox, and with which error. All
 * other calls are allowed: compilers, debuggers, browsers and servers have to run. The models are the default profiles
 * of Flatpak and of Docker; calls that both refuse without privileges are refused here, except those that debuggers
 * need.
 */

/** Error numbers, the same on both architectures. */
export const errors = {
  EPERM: 1,
  ENOSYS: 38,
  EPROTONOSUPPORT: 93,
  ESOCKTNOSUPPORT: 94,
  EAFNOSUPPORT: 97,
} as const;

/**
 * A condition on an argument, of which the kernel uses the lower 32 bits as an `int` or `unsigned`: it has any of these
 * bits; or, after `mask`, it is one of these values, or none of them.
 */
export type Condition = { arg: number } & (
  | { has: number }
  | { is: readonly number[]; mask?: number }
  | { not: readonly number[]; mask?: number }
);

/** Refuses calls for which all conditions hold; without conditions, always. */
export type Rule = { calls: readonly CallName[]; answer: keyof typeof errors; when?: readonly Condition[] };

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const newNamespaces = 0x7e02_0000;

/** Terminal requests that type on behalf of others: TIOCSTI, TIOCLINUX. */
const typing = [0x5412, 0x541c];

/** PER_LINUX32, UNAME26, and ADDR_NO_RANDOMIZE, which gives debuggers and sanitizers the same addresses each time. */
const personalities = 0x0008 | 0x002_0000 | 0x004_0000;
const askedOnly = 0xffff_ffff;

const families = { unix: 1, inet: 2, inet6: 10, netlink: 16 };
const internet = [families.inet, families.inet6];
/** SOCK_STREAM, SOCK_DGRAM, SOCK_RAW; the rest of the argument are flags. */
const kinds = { mask: 0xf, not: [1, 2, 3] };
/** IP, ICMP, TCP, UDP, ICMPv6, RAW, MPTCP. Others would load rarely used protocols into the kernel. */
const protocols = [0, 1, 6, 17, 58, 255, 262];
const netlinkRoute = 0;

/** S_ISUID, S_ISGID. */
const setID = 0o6000;
/** O_CREAT, and the bit that only O_TMPFILE has: the mode argument exists only with one of them. */
const creating = 0o100 | 0o20_000_000;

export const profile: readonly Rule[] = [
  // A file that an agent leaves in the user's project must not run as its owner or group. systemd's
  // RestrictSUIDSGID= does the same.
  { calls: ["chmod", "fchmod", "creat", "mknod"], answer: "EPERM", when: [{ arg: 1, has: setID }] },
  { calls: ["fchmodat", "fchmodat2", "mknodat"], answer: "EPERM", when: [{ arg: 2, has: setID }] },
  {
    calls: ["openat"],
    answer: "EPERM",
    when: [
      { arg: 2, has: creating },
      { arg: 3, has: setID },
    ],
  },
  {
    calls: ["open"],
    answer: "EPERM",
    when: [
      { arg: 1, has: creating },
      { arg: 2, has: setID },
    ],
  },

  { calls: ["ioctl"], answer: "EPERM", when: [{ arg: 1, is: typing }] },

  // The arguments of these calls are in memory, where no filter sees them. Programs use the older call when a kernel
  // lacks these.
  { calls: ["clone3", "openat2"], answer: "ENOSYS" },

  // Sockets: those of this machine, of the internet, and the kernel's table of addresses.
  {
    calls: ["socket"],
    answer: "EAFNOSUPPORT",
    when: [{ arg: 0, not: Object.values(families) }],
  },
  {
    calls: ["socket"],
    answer: "EPROTONOSUPPORT",
    when: [
      { arg: 0, is: [families.netlink] },
      { arg: 2, not: [netlinkRoute] },
    ],
  },
  {
    calls: ["socket"],
    answer: "ESOCKTNOSUPPORT",
    when: [
      { arg: 0, is: internet },
      { arg: 1, ...kinds },
    ],
  },
  {
    calls: ["socket"],
    answer: "EPROTONOSUPPORT",
    when: [
      { arg: 0, is: internet },
      { arg: 2, not: protocols },
    ],
  },
  { calls: ["socketpair"], answer: "EAFNOSUPPORT", when: [{ arg: 0, not: [families.unix] }] },

  // Keys of the kernel belong to the session that the service was started in.
  { calls: ["add_key", "request_key", "keyctl"], answer: "EPERM" },

  // Large parts of the kernel with a history of vulnerabilities, and for which there are alternatives.
  { calls: ["io_uring_setup", "io_uring_enter", "io_uring_register"], answer: "EPERM" },
  { calls: ["userfaultfd", "bpf", "perf_event_open", "fanotify_init"], answer: "EPERM" },

  // Opening files by handle bypasses the mounts of a sandbox.
  { calls: ["open_by_handle_at"], answer: "EPERM" },

  // Mounts and namespaces. The sandbox has no capability for them anyway; refusing them keeps a fault in the kernel's
  // checks from being a way out.
  { calls: ["clone"], answer: "EPERM", when: [{ arg: 0, has: newNamespaces }] },
  { calls: ["mount", "umount2", "pivot_root", "chroot", "unshare", "setns"], answer: "EPERM" },
  {
    calls: ["open_tree", "open_tree_attr", "move_mount", "mount_setattr", "fsopen", "fsconfig", "fsmount", "fspick"],
    answer: "ENOSYS",
  },

  // The machine itself.
  { calls: ["kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff"], answer: "EPERM" },
  { calls: ["init_module", "finit_module", "delete_module"], answer: "EPERM" },
  { calls: ["acct", "quotactl", "quotactl_fd", "nfsservctl", "syslog"], answer: "EPERM" },
  { calls: ["iopl", "ioperm", "vhangup"], answer: "EPERM" },
  { calls: ["settimeofday", "clock_settime", "sethostname", "setdomainname"], answer: "EPERM" },
  { calls: ["lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules"], answer: "EPERM" },

  // Placement of memory on machines with several memory nodes.
  {
    calls: ["mbind", "get_mempolicy", "set_mempolicy", "set_mempolicy_home_node", "move_pages", "migrate_pages"],
    answer: "EPERM",
  },

  // 16-bit code, behaviour of other systems, and obsolete calls.
  { calls: ["modify_ldt"], answer: "EPERM" },
  {
    calls: ["personality"],
    answer: "EPERM",
    when: [
      { arg: 0, not: [askedOnly] },
      { arg: 0, has: ~personalities >>> 0 },
    ],
  },
  {
    calls: [
      "_sysctl",
      "create_module",
      "get_kernel_syms",
      "lookup_dcookie",
      "query_module",
      "sysfs",
      "uselib",
      "ustat",
    ],
    answer: "EPERM",
  },
];
