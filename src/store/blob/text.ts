import type { LongText } from "../../protocol/text.ts";
import type { Blobs, Json } from "../store.ts";

/**
 * Long texts in events: up to 16 KiB inline, else a blob together with the text's beginning. A tool's output is the
 * only text of its event and stays inline up to 60 KiB; so no event exceeds 64 KiB.
 */

export const outputBytes = 60 * 1024;
const inline = 16 * 1024;
const head = 500;

export const keepText = async (blobs: Pick<Blobs, "put">, text: string, max = inline): Promise<LongText> =>
  text.length <= max / 4 || Buffer.byteLength(text) <= max
    ? text
    : { blob: await blobs.put(Buffer.from(text)), head: text.slice(0, head) };

/** The whole text; its beginning with a note if the blob is missing. */
export const loadText = async (blobs: Blobs, text: LongText): Promise<string> => {
  if (typeof text === "string") return text;
  const bytes = await blobs.get(text.blob.sha256);
  return bytes?.toString("utf8") ?? `${text.head}… [the rest of ${text.blob.bytes} bytes is gone from the data folder]`;
};

/** The value of a JSON text; undefined: there is no text, or its blob is missing. */
export const loadJSON = async (blobs: Pick<Blobs, "get">, text: LongText | null): Promise<Json | undefined> => {
  if (text === null) return undefined;
  const whole = typeof text === "string" ? text : (await blobs.get(text.blob.sha256))?.toString("utf8");
  return whole === undefined ? undefined : (JSON.parse(whole) as Json);
};

/** Thrown when the blob of a text is missing and acting on its beginning alone would be wrong. */
export class TextLost extends Error {
  readonly code = "text_lost";
}

/** The whole text. Throws `TextLost` if the blob is missing. */
export const requireText = async (blobs: Blobs, text: LongText): Promise<string> => {
  if (typeof text === "string") return text;
  const bytes = await blobs.get(text.blob.sha256);
  if (bytes !== undefined) return bytes.toString("utf8");
  throw new TextLost(
    `Expected the ${text.blob.bytes} bytes of "${text.head.slice(0, 60)}…" in the data folder, got nothing there.`,
  );
};

type KeptInput = { blob: { sha256: string; bytes: number }; head: string };

/** A call's arguments, stored like a long text if their JSON is long. */
export const keepInput = async (blobs: Blobs, input: unknown): Promise<Json> => {
  const text = JSON.stringify(input ?? null);
  const kept = await keepText(blobs, text);
  return typeof kept === "string" ? (JSON.parse(kept) as Json) : kept;
};

/** The arguments of a call. If their blob is missing, an object that marks them as invalid (`$invalid`). */
export const loadInput = async (blobs: Blobs, input: Json): Promise<Json> => {
  if (!isKept(input)) return input;
  const bytes = await blobs.get(input.blob.sha256);
  if (bytes === undefined)
    return { $invalid: `The ${input.blob.bytes} bytes of arguments are gone from the data folder.` };
  return JSON.parse(bytes.toString("utf8")) as Json;
};

const isKept = (input: unknown): input is KeptInput =>
  typeof input === "object" &&
  input !== null &&
  "head" in input &&
  typeof input.head === "string" &&
  "blob" in input &&
  typeof input.blob === "object" &&
  input.blob !== null &&
  Object.keys(input).length === 2 &&
  "sha256" in input.blob;
