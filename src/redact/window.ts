/** Cuts a text that comes in pieces into parts, each of which can be searched alone. */

/** Bytes that are searched at once in a text that comes in pieces. */
const windowBytes = 512 * 1024;
/** Bytes that two windows share: no form is longer, and a part of a longer value is enough. */
const sharedBytes = 64 * 1024;

/**
 * Cuts a text into parts that overlap. Cuts are between lines, since half of a word may look like a secret; a line that
 * is longer than what two parts share is cut within.
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
