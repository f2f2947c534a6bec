import { errors } from "../../../src/process/seccomp/profile.ts";

/** Runs a program of classic BPF over `struct seccomp_data`, as the kernel does. */

/** What the kernel numbers the architectures by. */
export const audits = { x64: 0xc000_003e, arm64: 0xc000_00b7, i386: 0x4000_0003, arm: 0x4000_0028 };

/** What the kernel would do with the call, by the program alone: "allow", "kill", or an error's name. */
export const answerOf = (
  program: Buffer,
  nr: number,
  args: readonly number[],
  audit: number,
  told: (steps: number) => void = () => {},
): string => {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(nr >>> 0, 0);
  data.writeUInt32LE(audit, 4);
  for (const [at, value] of args.entries()) data.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)), 16 + 8 * at);
  let acc = 0;
  let steps = 0;
  for (let at = 0; at * 8 < program.length; at += 1) {
    steps += 1;
    const [code, yes, no, k] = [
      program.readUInt16LE(at * 8),
      program.readUInt8(at * 8 + 2),
      program.readUInt8(at * 8 + 3),
      program.readUInt32LE(at * 8 + 4),
    ];
    const jump = (taken: boolean) => (at += taken ? yes : no);
    if (code === 0x20) acc = data.readUInt32LE(k);
    else if (code === 0x54) acc = (acc & k) >>> 0;
    else if (code === 0x15) jump(acc === k);
    else if (code === 0x25) jump(acc > k);
    else if (code === 0x35) jump(acc >= k);
    else if (code === 0x05) at += k;
    else if (code === 0x45) jump((acc & k) !== 0);
    else if (code === 0x06) {
      told(steps);
      if (k === 0x7fff_0000) return "allow";
      if (k === 0x8000_0000 || k === 0) return "kill";
      const [name = `error ${k & 0xffff}`] = Object.entries(errors).find(([, number]) => number === (k & 0xffff)) ?? [];
      return name;
    } else throw new Error(`Expected an instruction that the kernel takes, got ${code}`);
  }
  throw new Error("Expected an answer, got the end of the program.");
};
