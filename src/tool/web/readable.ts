import type { Job } from "../../thread.ts";
import { htmlToText } from "./html.ts";

/** The text of a page: a job for a thread if the page is long. */

type Body = { body: Uint8Array /** The content type of its header. */; type: string; url: string };

export const readable: Job<Body, { title: string; text: string }> = {
  name: "readable",
  run({ body, type, url }) {
    const text = decode(body, type);
    const kind = type.split(";")[0]?.trim().toLowerCase() ?? "";
    const html = /html/.test(kind) || (kind === "" && /^\s{0,1000}<(?:!doctype|html)/i.test(text));
    return html ? htmlToText(text, url) : { title: "", text };
  },
};

const decode = (body: Uint8Array, type: string): string => {
  const charset = /charset\s*=\s*"?([\w-]{1,40})/i.exec(type)?.[1] ?? "utf-8";
  try {
    return new TextDecoder(charset).decode(body);
  } catch {
    return Buffer.from(body).toString("utf8");
  }
};
