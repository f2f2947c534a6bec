/** A text that comes in pieces, in parts of which each can be looked through alone. */

/** Bytes of a text that are looked through at once where it comes in pieces. */
const windowBytes = 512 * 1024;
/** Bytes that two windows share: no form is longer, and of a longer value a part is enough. */
const sharedBytes = 64 * 1024;

/**
 * A text in parts that overlap. They are cut between lines, since half of a word may look like a secret; lines that are
 * longer than what two parts share are cut within.
 */
export async function* windowsOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const lineBefore = (bytes: Buffer, at: number): number => {
    const end = bytes.lastIndexOf(0x0a, at - 1) + 1;
    return end > at - sharedBytes ? end : at;
  };
  let held: Buffer = Buffer.alloc(0);
  for await (const piece of pieces) {
    held = Buffer.concat([held, piece]);
    if (held.length < windowBytes) continue;
    const end = lineBefore(held, held.length);
    yield held.subarray(0, end);
    held = held.subarray(lineBefore(held, end - sharedBytes));
  }
  yield held;
}
