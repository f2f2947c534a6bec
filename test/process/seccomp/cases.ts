import { type CallName, callNumbers } from "../../../src/process/seccomp/call.ts";
import { type errors, profile } from "../../../src/process/seccomp/profile.ts";

/** What the profile is to refuse and to allow, by call and arguments: for the program itself, and for the kernel. */

export type Arch = "x64" | "arm64";
export const columns = { x64: 0, arm64: 1 } as const;
export const numberOf = (call: CallName, arch: Arch): number | null => callNumbers[call][columns[arch]];

const creating = 0o100 | 0o1;
const temporaryFile = 0o20_200_000 | 0o2;
const cloexec = 0o2_000_000;

/** What is refused with which arguments, and what is not. */
export const cases: { call: CallName; args: number[]; refused?: keyof typeof errors }[] = [
  { call: "chmod", args: [0, 0o755] },
  { call: "chmod", args: [0, 0o1777] },
  ...[0o4755, 0o2755, 0o6000].flatMap((mode) => [
    { call: "chmod" as const, args: [0, mode], refused: "EPERM" as const },
    { call: "fchmod" as const, args: [3, mode], refused: "EPERM" as const },
    { call: "fchmodat" as const, args: [-100, 0, mode], refused: "EPERM" as const },
    { call: "fchmodat2" as const, args: [-100, 0, mode, 0], refused: "EPERM" as const },
    { call: "creat" as const, args: [0, mode], refused: "EPERM" as const },
    { call: "mknod" as const, args: [0, 0o100_000 | mode], refused: "EPERM" as const },
    { call: "mknodat" as const, args: [-100, 0, 0o100_000 | mode], refused: "EPERM" as const },
    { call: "open" as const, args: [0, creating, mode], refused: "EPERM" as const },
    { call: "openat" as const, args: [-100, 0, creating, mode], refused: "EPERM" as const },
    { call: "openat" as const, args: [-100, 0, temporaryFile, mode], refused: "EPERM" as const },
    // Without a file to make, what stands in the place of the mode is left over from something else.
    { call: "open" as const, args: [0, cloexec, mode] },
    { call: "openat" as const, args: [-100, 0, cloexec, mode] },
  ]),
  { call: "fchmod", args: [3, 0o644] },
  { call: "fchmodat", args: [-100, 0, 0o755] },
  { call: "mknodat", args: [-100, 0, 0o010_644] },
  { call: "openat", args: [-100, 0, creating | cloexec, 0o666] },
  { call: "openat2", args: [-100, 0, 0, 24], refused: "ENOSYS" },
  { call: "ioctl", args: [0, 0x5401] },
  { call: "ioctl", args: [0, 0x5412], refused: "EPERM" },
  // The kernel drops the upper half.
  { call: "ioctl", args: [0, 0x1_0000_5412], refused: "EPERM" },
  { call: "ioctl", args: [0, 0x541c], refused: "EPERM" },
  // fork, vfork, threads; then each namespace.
  { call: "clone", args: [0x0120_0011] },
  { call: "clone", args: [0x4111] },
  { call: "clone", args: [0x003d_0f00] },
  ...[0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000].map((flag) => ({
    call: "clone" as const,
    args: [flag | 17],
    refused: "EPERM" as const,
  })),
  { call: "clone3", args: [0, 88], refused: "ENOSYS" },
  ...[1, 2, 10].map((family) => ({ call: "socket" as const, args: [family, 1 | 0o2_004_000, 0] })),
  { call: "socket", args: [1, 5, 0] },
  { call: "socket", args: [2, 2, 1] },
  { call: "socket", args: [10, 1, 262] },
  { call: "socket", args: [16, 3 | cloexec, 0] },
  ...Array.from({ length: 46 }, (_, family) => family)
    .filter((family) => ![1, 2, 10, 16].includes(family))
    .map((family) => ({ call: "socket" as const, args: [family, 1, 0], refused: "EAFNOSUPPORT" as const })),
  { call: "socket", args: [0x1_0000_0028, 1, 0], refused: "EAFNOSUPPORT" },
  ...Array.from({ length: 22 }, (_, at) => ({
    call: "socket" as const,
    args: [16, 3, at + 1],
    refused: "EPROTONOSUPPORT" as const,
  })),
  ...[4, 5, 6, 10].map((kind) => ({
    call: "socket" as const,
    args: [2, kind | cloexec, 0],
    refused: "ESOCKTNOSUPPORT" as const,
  })),
  ...[33, 115, 132, 136, 256].map((protocol) => ({
    call: "socket" as const,
    args: [10, 2, protocol],
    refused: "EPROTONOSUPPORT" as const,
  })),
  { call: "socketpair", args: [1, 1, 0] },
  { call: "socketpair", args: [30, 1, 0], refused: "EAFNOSUPPORT" },
  ...[0, 8, 0x2_0000, 0x2_0008, 0x4_0000, 0x4_0008, 0xffff_ffff].map((personality) => ({
    call: "personality" as const,
    args: [personality],
  })),
  ...[1, 4, 6, 0x10_0000, 0x40_0000, 0xffff_fffe].map((personality) => ({
    call: "personality" as const,
    args: [personality],
    refused: "EPERM" as const,
  })),
];

/** Refused whatever their arguments are. */
export const always = profile.flatMap(({ calls, answer, when }) =>
  when === undefined ? calls.map((call) => ({ call, answer })) : [],
);
