import { z } from "zod";
import { newID } from "../../id.ts";
import type { Limits } from "../../protocol/limit.ts";
import { type TaskState, isOpenSlice } from "../../domain/state/task.ts";
import { mediaTypeOf } from "./media-type.ts";
import { answer, failed, ok, shown } from "../result.ts";
import type { Tool } from "../tool.ts";

const input = z.strictObject({
  path: z.string().min(1),
  title: z.string().trim().min(1).max(200).describe("What it shows"),
});

export const artifact: Tool<z.infer<typeof input>> = {
  name: "artifact",
  description:
    "Hands the user a file as it is now, beside the result: one that was asked for and is no part of the project, or evidence best seen. " +
    "It stays: delete it if it should not land.",
  input,
  effect: "log",
  run: ({ path, title }, context) =>
    answer(context.signal, async () => {
      const { workspace, limits, sessionID, callID } = context;
      const { bytes } = await workspace.files.read(path, limits.artifactBytes);
      const full = noRoom(context.state(), callID, bytes.length, limits);
      if (full !== undefined) return failed(full);
      const filename = nameOf(path);
      const mime = mediaTypeOf(filename, bytes);
      const kept = await context.keep(bytes);
      const artifactID = newID("art");
      const sliceID = sliceOf(context.state(), sessionID);
      const more = sliceID === undefined ? {} : { sliceID };
      return {
        ...ok(`Kept ${shown(filename)} as ${artifactID}: ${mime}, ${kept.bytes} bytes.`),
        facts: [
          {
            type: "artifact.recorded",
            data: { artifactID, filename, title, mime, ...kept, by: { kind: "call", sessionID, callID }, ...more },
          },
        ],
      };
    }),
};

/** The slice that the artifact is evidence for; undefined: there is not exactly one candidate. */
const sliceOf = ({ slices, sessions }: TaskState, sessionID: string): string | undefined => {
  const given = sessions.find((session) => session.sessionID === sessionID)?.sliceIDs ?? [];
  const open = slices.flatMap((slice) => (isOpenSlice(slice) ? [slice.sliceID] : []));
  const [only, ...others] = given.length > 0 ? given : open;
  return others.length === 0 ? only : undefined;
};

/**
 * Why nothing more can be stored; undefined: there is room. Concurrent calls before this one count as stored, because
 * their events are not recorded yet.
 */
const noRoom = (state: TaskState, callID: string, bytes: number, limits: Limits): string | undefined => {
  const own = state.artifacts.filter(({ by }) => by.kind === "call");
  const open = state.open.filter(({ tool }) => tool === "artifact");
  const before =
    own.length +
    Math.max(
      0,
      open.findIndex((call) => call.callID === callID),
    );
  if (before >= limits.artifacts)
    return `Expected at most ${limits.artifacts} artifacts in a Task, and there are already that many. Nothing was kept. Put what is left into one file, or say in your last message where it stands.`;
  const sum = own.reduce((total, kept) => total + kept.bytes, 0);
  return sum + bytes > limits.artifactsBytes
    ? `Expected at most ${limits.artifactsBytes} bytes of artifacts in a Task, got ${bytes} beside the ${sum} that are there. Nothing was kept.`
    : undefined;
};

const nameOf = (path: string): string =>
  path
    .replace(/(?<!\/)\/+$/, "")
    .split("/")
    .at(-1) ?? path;
