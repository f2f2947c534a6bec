import { type Frame, size } from "./record.ts";

/** Pictures to one animated WebP, which repeats. */

type Image = {
  composite: (parts: { input: Buffer; left: number; top: number }[]) => Image;
  png: () => Image;
  webp: (options: { quality: number; effort: number; loop: number; delay: number[]; minSize: boolean }) => Image;
  toBuffer: () => Promise<Buffer>;
};

/** What is used of `sharp`. */
export type Encoder = (
  input: { create: { width: number; height: number; channels: 3; background: string } } | Buffer[],
  options?: { join: { animated: true } },
) => Image;

export const encode = async (sharp: Encoder, frames: readonly Frame[]): Promise<Buffer> => {
  const width = size.left + size.right;
  const whole = await Promise.all(
    frames.map(({ left, right }) =>
      sharp({ create: { width, height: size.height, channels: 3, background: "#0d0f14" } })
        .composite([
          { input: left, left: 0, top: 0 },
          { input: right, left: size.left, top: 0 },
        ])
        .png()
        .toBuffer(),
    ),
  );
  const delay = frames.map(({ ms }) => ms);
  return sharp(whole, { join: { animated: true } })
    .webp({ quality: 70, effort: 4, loop: 0, delay, minSize: true })
    .toBuffer();
};
