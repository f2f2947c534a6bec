import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { at, createTask, post, send, settledTask } from "../../harness/double/hostile-text.ts";
import { textsOf, zipOf } from "../../harness/double/squads.ts";
import { linesOf, type Load, mib, nested, projectOf, put } from "./load.ts";
import type { Stage } from "./stage.ts";

/** Each row of `limits` that says how much there may be, with as much; and what else is read up to a bound. */

const inPlace = { isolation: "directory" };

/** What is answered is not looked at, and not read into a string. */
const drain = async (response: Response): Promise<void> => {
  for await (const _ of response.body ?? []);
};

const get = async (stage: Stage, path: string): Promise<void> => drain(await fetch(`${stage.url}${path}`));

const postText = async (stage: Stage, path: string, body: string): Promise<void> =>
  drain(await fetch(`${stage.url}${path}`, { method: "POST", body, headers: { "content-type": "application/json" } }));

const archiveOf = (stage: Stage, taskID: string, directory: string) =>
  get(stage, at(`/task/${taskID}/project-archive`, directory));

const remove = async (stage: Stage, taskID: string, directory: string): Promise<void> => {
  await send(stage.url, at(`/task/${taskID}`, directory), { method: "DELETE" });
};

/** Until its folder is removed, which goes on after the answer. */
const settle = () => pause(3000);

export const limitLoads: readonly Load[] = [
  {
    name: "a Task with every field at its bound",
    drives: [
      "requestBytes",
      "titleChars",
      "sourceChars",
      "reasonBytes",
      "metadataBytes",
      "checks",
      "attachments",
      "attachmentBytes",
      "attachmentsBytes",
      "largeBodyBytes",
      "largeBodies",
    ],
    run: async (stage) => {
      const directory = projectOf(stage, { "a.txt": "a" });
      const file = (bytes: number, n: number) => ({
        filename: `${n}.txt`,
        mime: "text/plain",
        data: randomBytes(bytes).toString("base64"),
      });
      const body = (attachments: object[]) => ({
        request: stage.script([]) + " ".padEnd(250 * 1024, "word "),
        title: "t".repeat(200),
        source: "s".repeat(64),
        metadata: Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`k${n}`, n])),
        checks: Array.from({ length: 32 }, () => "true"),
        attachments,
        ...inPlace,
      });
      const two = [file(10 * mib, 0), file(10 * mib - 100, 1)];
      const sixteen = Array.from({ length: 16 }, (_, n) => file(mib, n));
      const ids = await Promise.all([two, sixteen, two].map((files) => createTask(stage.url, directory, body(files))));
      for (const taskID of ids) await settledTask(stage.url, taskID, 120_000);
      const [taskID = ""] = ids;
      const text = stage.script([]) + " ".padEnd(250 * 1024, "more ");
      await post(stage.url, `/task/${taskID}/message`, directory, { source: "s", text, attachments: two });
      await settledTask(stage.url, taskID, 120_000);
      await post(stage.url, `/task/${taskID}/cancel`, directory, { reason: "r".repeat(2000) });
      for (const part of ["status", "board", "messages"]) await get(stage, `/task/${taskID}/${part}`);
      await get(stage, at("/tasks?search=word&limit=200", directory));
      await archiveOf(stage, taskID, directory);
    },
  },
  {
    name: "bodies that are refused: the largest, the deepest, the most keys, every escape",
    drives: ["bodyBytes", "jsonDepth", "jsonKeys"],
    run: async (stage) => {
      const path = at("/task", projectOf(stage, { "a.txt": "a" }));
      const small = mib - 1000;
      const large = 27 * mib;
      for (const size of [small, large])
        for (const body of [
          nested(31),
          nested(Math.floor(size / 7)),
          "[".repeat(size),
          `[${"{},".repeat(size / 3)}{}]`,
          `{"request":"${"\\u0041".repeat(size / 6)}"}`,
          `{"request":"${'\\"'.repeat(size / 2)}"}`,
          `{"request":"${"é".repeat(size / 2)}"}`,
          `[${"1,".repeat(size / 2)}1]`,
          `{${Array.from({ length: 10_000 }, (_, n) => `"k${n}":"${"v".repeat(50)}"`).join()}}`,
          `{${Array.from({ length: size / 20 }, (_, n) => `"key${n}":${n}`).join()}}`,
          " ".repeat(size),
        ]) {
          await postText(stage, path, body);
          await postText(stage, "/mission/wake", body);
          await postText(stage, "/squad/validate", body);
          await postText(stage, "/mcp", body);
        }
    },
  },
  {
    name: "10,000 events: their pages, board, messages, streams to readers that do not read, and the archive",
    drives: ["streams", "streamsPerTask", "streamsPerClient", "streamQueueBytes", "streamQueueEvents"],
    run: async (stage) => {
      const directory = projectOf(stage, { "a.txt": "a" });
      const calls = Array.from({ length: 10 }, (_, turn) =>
        Array.from({ length: 500 }, (__, n) => ({ tool: "note", input: { text: `${turn}.${n} `.padEnd(1000, "n") } })),
      );
      const slow = Array.from({ length: 8 }, () => {
        const socket = connect(Number(new URL(stage.url).port), "127.0.0.1");
        socket.pause();
        socket.write(
          `GET ${at("/events", directory)} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n`,
        );
        socket.on("error", () => undefined);
        return socket;
      });
      const taskID = await stage.task(directory, calls, inPlace);
      for (const path of [
        `/task/${taskID}/events?format=json&after=0&limit=1000`,
        `/events?format=json&after=0&limit=1000`,
        at("/events?format=json&after=0&limit=1000", directory),
        `/task/${taskID}/messages?limit=1000`,
        `/task/${taskID}/board`,
        `/task/${taskID}/status`,
        at("/tasks?limit=200", directory),
      ])
        await Promise.all([get(stage, path), get(stage, path)]);
      await archiveOf(stage, taskID, directory);
      for (const socket of slow) socket.destroy();
      await remove(stage, taskID, directory);
      await settle();
    },
  },
  {
    name: "a change of 20,000 new files and a diff of 60 MB: committed, read, landed, archived, removed",
    drives: ["taskDiskBytes"],
    run: async (stage) => {
      const directory = projectOf(stage, { "old.txt": linesOf(30 * mib) });
      const many = "for d in $(seq 20); do mkdir $d; (cd $d; for f in $(seq 1000); do echo $f >$f.txt; done); done";
      const taskID = await stage.task(directory, [
        { tool: "shell", input: { command: `${many}; sed -i 's/line/lime/' old.txt` } },
        { tool: "git", input: { action: "status" } },
        { tool: "git", input: { action: "diff" } },
      ]);
      await get(stage, at(`/task/${taskID}/diff`, directory));
      await archiveOf(stage, taskID, directory);
      await remove(stage, taskID, directory);
      await settle();
    },
  },
  {
    name: "squads: the largest packages, with the longest front matter, and a ZIP that grows",
    drives: [],
    run: async (stage) => {
      const head = Array.from({ length: 3000 }, (_, n) => `k${n}: {a: [1, {b: c}]}`).join("\n");
      const agents = Object.fromEntries(
        Array.from({ length: 14 }, (_, n) => [
          `agents/a${n}.md`,
          `---\nname: a${n}\ndescription: d\ntools: [read]\n${head}\n---\n\n${"x".repeat(200)}\n`.slice(0, 64 * 1024),
        ]),
      );
      const names = ["qa", ...Array.from({ length: 14 }, (_, n) => `a${n}`)];
      const texts = textsOf(agents, { agents: names });
      const zips = [
        await zipOf(texts),
        await zipOf(textsOf({ "docs/a.md": "a".repeat(64 * 1024) })),
        await zipOf({ "squad.json": Buffer.alloc(100 * mib) }),
        await zipOf(Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`f${n}`, ""]))),
      ];
      for (const zip of zips)
        for (const path of ["/squad/validate", "/squad/install"])
          await postText(stage, path, JSON.stringify({ zip: zip.toString("base64") }));
      const directory = projectOf(stage, { "a.txt": "a" }, (folder) => {
        for (let n = 0; n < 20; n += 1)
          for (const [path, text] of Object.entries(texts)) put(folder, `.sortie/squads/api${n}/${path}`, text);
      });
      await get(stage, at("/squads", directory));
      await stage.task(directory, [{ tool: "list", input: {} }]);
    },
  },
];

/** Tools and rows that nothing here drives, each with the reason. */
export const notDriven: Readonly<Record<string, readonly string[]>> = {
  "seconds, and attempts in a row": [
    "commandSeconds",
    "commandMaxSeconds",
    "previewSeconds",
    "archiveSeconds",
    "projectCheckSeconds",
    "setupSeconds",
    "askSeconds",
    "permissionSeconds",
    "modelFirstSeconds",
    "modelSilentSeconds",
    "modelReplySeconds",
    "waitSeconds",
    "quotaHours",
    "minutes",
    "checkRounds",
    "landingRounds",
    "landingMoves",
    "loopRepeats",
    "reviewTurns",
    "reviewTokens",
    "permissionAsks",
    "breakerFailures",
    "keepDays",
    "drainSeconds",
    "checkpointSeconds",
    "probeSeconds",
  ],
  "checks, which run as a Task's do": ["verify"],
  "an answer of one field to one Task, which is looked up by its id": ["task_answer"],
  "requests, turns and tokens that are counted one by one": [
    "requestsPerSecond",
    "requestsBurst",
    "createsPerSecond",
    "createsBurst",
    "steps",
    "tokens",
    "reservePercent",
    "pictures",
  ],
  "bounds that the kernel holds commands to": [
    "commandFiles",
    "commandFileBytes",
    "commandMemoryBytes",
    "commandTmpBytes",
  ],
  "what is written of it is streamed, as that of one file is": ["archiveBytes"],
  "what statfs says of the disk": ["diskFreeBytes", "diskFreePercent", "diskPauseBytes"],
  "Tasks that run, which are counted by an index when one begins": ["running", "runningPerProject"],
  "test/night/large.test.ts has the queue, with the log that such a queue has": ["waiting"],
};
