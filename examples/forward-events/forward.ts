import { readFile, rename, writeFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

/**
 * Forwards what happens in a Sortie to a webhook, such as a chat's. Each event is delivered at least once: the id of the last
 * delivered one is kept in a file, and the stream is resumed from there with Last-Event-ID. See README.md.
 */

const service = process.env["SORTIE_URL"] ?? "http://127.0.0.1:7878";
const target = process.env["TARGET_URL"];
const stateFile = process.env["STATE_FILE"] ?? "forward-events.id";
const password = process.env["SORTIE_PASSWORD"];
const username = process.env["SORTIE_USERNAME"] ?? "service";
if (target === undefined) throw new Error("Expected TARGET_URL, the address to post to.");

type Event = { id: number; type: string; taskID?: string; missionID?: string; at: string; data: Record<string, unknown> };

/** What is worth a message, and its words. */
const wordsOf = ({ type, taskID, missionID, data }: Event): string | undefined => {
  const who = taskID ?? missionID;
  switch (type) {
    case "task.created":
      return `${who} begins: ${data["title"]}`;
    case "ask.opened":
      return `${who} asks: ${data["prompt"]}`;
    case "task.settled":
      return `${who} is ${data["lifecycleStatus"]}${data["error"] === undefined ? "" : `: ${data["error"]}`}`;
    case "mission.finished":
      return `${who} is ${data["outcome"]}: ${data["summary"]}`;
    default:
      return undefined;
  }
};

/** The frames of a stream: an id each, and the event unless the frame is the service's greeting. */
async function* framesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<{ id: string; event?: Event }> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) {
    const parts = `${text}${decoder.decode(chunk, { stream: true })}`.split("\n\n");
    text = parts.pop() ?? "";
    for (const part of parts) {
      const id = /^id: (\d+)$/m.exec(part)?.[1];
      const data = /^data: (.*)$/m.exec(part)?.[1];
      if (id !== undefined) yield { id, ...(data === undefined ? {} : { event: JSON.parse(data) as Event }) };
    }
  }
}

/** Until the other side has it: an event is never skipped. */
const deliver = async (text: string, event: Event): Promise<void> => {
  for (let waitMs = 500; ; waitMs = Math.min(waitMs * 2, 60_000)) {
    try {
      const response = await fetch(target, {
        method: "POST",
        // The id lets the other side drop what it has already.
        headers: { "content-type": "application/json", "idempotency-key": String(event.id) },
        body: JSON.stringify({ text, event }),
        signal: AbortSignal.timeout(10_000),
      });
      await response.body?.cancel();
      if (response.ok) return;
      console.error(`The target answered ${response.status}.`);
    } catch (error) {
      console.error(`The target cannot be reached: ${String(error)}`);
    }
    await pause(waitMs);
  }
};

const keep = async (id: string): Promise<void> => {
  await writeFile(`${stateFile}.new`, id);
  await rename(`${stateFile}.new`, stateFile);
};

const headers: Record<string, string> =
  password === undefined ? {} : { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}` };
let last = (await readFile(stateFile, "utf8").catch(() => "")).trim();
for (;;) {
  try {
    const response = await fetch(`${service}/events`, {
      headers: { ...headers, ...(last === "" ? {} : { "last-event-id": last }) },
    });
    if (!response.ok || response.body === null) throw new Error(`${response.status} ${await response.text()}`);
    console.error(last === "" ? "Following from now on." : `Following from event ${last} on.`);
    for await (const { id, event } of framesOf(response.body)) {
      const text = event === undefined ? undefined : wordsOf(event);
      if (event !== undefined && text !== undefined) await deliver(text, event);
      last = id;
      await keep(id);
    }
  } catch (error) {
    console.error(`The service cannot be followed: ${error instanceof Error ? error.message : String(error)}`);
  }
  await pause(2000);
}
