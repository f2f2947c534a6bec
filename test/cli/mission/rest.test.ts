import { expect, test } from "vitest";
import type { Service } from "../../../src/cli/connection.ts";
import { show } from "../../../src/cli/mission/action.ts";
import type { Screen } from "../../../src/cli/terminal/screen.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";

/** `-f` ends once the Mission rests, whichever event was its last. */

const at = "2026-11-28T12:00:00.000Z";
const screen = {
  colors: { dim: String, bold: String, green: String, yellow: String },
  say: () => {},
} as unknown as Screen;
const own = (id: number, type: string, data: object = {}) =>
  ({ id, type, at, data: { sessionID: "ses_1", ...data } }) as unknown as Frame;
const renamed = (id: number) => own(id, "mission.updated", { title: "New" });
const answered = (data: object) => ({ data, error: undefined, response: new Response() });

/** Follows what the stream says, which stays open after it. Resolves to the ids that were read. */
const follow = async (events: Frame[], known: number, restsAt: number) => {
  const read: number[] = [];
  let asked = 0;
  const service = {
    mission: {
      status: () => {
        asked += 1;
        const lastEventID = read.length === 0 ? known : Math.max(known, read.at(-1) ?? 0);
        const word = lastEventID >= restsAt ? "inactive" : "running";
        return Promise.resolve(answered({ createdAt: at, lastEventID, status: word, agentStatus: word }));
      },
      events: () =>
        Promise.resolve(
          answered(
            (async function* () {
              yield* events;
              await new Promise(() => {});
            })(),
          ),
        ),
    },
  } as unknown as Service;
  const ended = show(
    {
      service,
      target: { url: "http://127.0.0.1:1", directory: "/work/project" } as never,
      screen: screen,
      emit: (event) => void ("id" in event && read.push(event.id as number)),
      missionID: "m",
    },
    "rest",
    new AbortController().signal,
  ).then(() => "ended");
  const open = new Promise<string>((done) => setTimeout(done, 300, "open"));
  return { how: await Promise.race([ended, open]), read, asked };
};

test.each([
  [
    "the proposal of its branch",
    own(4, "mission.proposed", { pullRequest: { number: 1, url: "https://forge/1" }, commit: "c0ffee" }),
  ],
  ["a new title", renamed(4)],
  ["words to one of its Tasks", own(4, "task.messaged", { taskID: "task_1", title: "T", text: "Go on" })],
])("following ends after %s", async (_what, last) => {
  const { how, read } = await follow([renamed(1), renamed(2), renamed(3), last], 2, 4);
  expect({ how, read }).toEqual({ how: "ended", read: [1, 2, 3, 4] });
});

test("of what had happened before, only the last event is looked at", async () => {
  expect(await follow([renamed(1), renamed(2), renamed(3)], 3, 3)).toMatchObject({ how: "ended", asked: 2 });
});

test("control: it goes on while the Mission does, and while there is more to read", async () => {
  expect(await follow([renamed(1), renamed(2)], 2, 3)).toMatchObject({ how: "open" });
});
