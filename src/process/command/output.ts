/** Keeps the head and the tail of a stream of bytes, within a limit. */
export interface BoundedOutput {
  add(chunk: Buffer): void;
  /** The text, with a line in the middle that says how much was left out. */
  text(): string;
  dropped(): number;
}

/** Number of bytes at the start of a buffer that continue a UTF-8 character begun before it. */
const continuation = (bytes: Buffer): number => {
  let count = 0;
  while (count < 3 && ((bytes[count] ?? 0) & 0xc0) === 0x80) count += 1;
  return count;
};

/** Number of bytes at the end of a buffer that begin an incomplete UTF-8 character. */
const unfinished = (bytes: Buffer): number => {
  for (let back = 1; back <= 3 && back <= bytes.length; back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
};

export const createBoundedOutput = (keepBytes: number): BoundedOutput => {
  const headBound = Math.ceil(keepBytes / 2);
  const tailBound = Math.floor(keepBytes / 2);
  const head: Buffer[] = [];
  let headBytes = 0;
  let tail: Buffer[] = [];
  let tailBytes = 0;
  let total = 0;

  return {
    add(chunk) {
      total += chunk.length;
      let rest = chunk;
      if (headBytes < headBound) {
        const part = rest.subarray(0, headBound - headBytes);
        head.push(part);
        headBytes += part.length;
        rest = rest.subarray(part.length);
      }
      if (rest.length === 0 || tailBound === 0) return;
      tail.push(rest);
      tailBytes += rest.length;
      // The tail grows to twice its limit before it is cut, so each byte is copied at most twice, whatever the chunk
      // sizes.
      if (tailBytes > 2 * tailBound) {
        const joined = Buffer.concat(tail);
        tail = [Buffer.from(joined.subarray(joined.length - tailBound))];
        tailBytes = tailBound;
      }
    },
    text() {
      if (total <= headBytes) return Buffer.concat(head).toString("utf8");
      const all = Buffer.concat(tail);
      const missing = total - headBytes - Math.min(all.length, tailBound);
      if (missing === 0) return Buffer.concat([...head, all]).toString("utf8");
      const start = Buffer.concat(head);
      const end = all.subarray(Math.max(0, all.length - tailBound));
      const startText = start.subarray(0, start.length - unfinished(start)).toString("utf8");
      const endText = end.subarray(continuation(end)).toString("utf8");
      return `${startText}\n[… ${missing} bytes not kept …]\n${endText}`;
    },
    dropped: () => total - headBytes - Math.min(tailBytes, tailBound),
  };
};
