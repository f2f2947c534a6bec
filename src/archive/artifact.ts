import type { ArchivedFile } from "../domain/view/archive.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { Artifact } from "../protocol/task/status.ts";
import type { Blobs } from "../store/store.ts";
import { contentOf, entryOf } from "./blob.ts";
import { mayHold, nameEntries, type Omitted, type Room } from "./entry.ts";
import type { Zip } from "./zip.ts";

/** Adds a Task's artifacts under their own names, if those are safe and not taken. */
export const addArtifacts = async (
  zip: Zip,
  flow: string,
  { artifacts }: Pick<TaskState, "artifacts">,
  { store, room }: { store: { blobs: Pick<Blobs, "get" | "read"> }; room: Room },
): Promise<{ files: ArchivedFile[]; omitted: Omitted[] }> => {
  const files: ArchivedFile[] = [];
  const omitted: Omitted[] = [];
  for (const { artifact, name } of await named(artifacts, `${flow}artifacts`)) {
    if (artifact.bytes > room.left) {
      omitted.push({ path: name, reason: room.full });
      continue;
    }
    const content = await contentOf(store.blobs, artifact);
    if (content === undefined) {
      omitted.push({ path: name, reason: "its content is missing from the data folder" });
      continue;
    }
    room.left -= artifact.bytes;
    const { done } = await zip.add(name, 0o100644, entryOf(content));
    files.push({ name, ...(await done), artifactID: artifact.artifactID });
  }
  return { files, omitted };
};

/** Names for the artifacts; if several have the same name, later ones get a number. */
const named = async (
  artifacts: readonly Artifact[],
  folder: string,
): Promise<{ artifact: Artifact; name: string }[]> => {
  const listed = artifacts.map((artifact) => {
    const own = entry(artifact.filename);
    // A name that no archive may hold is replaced by the artifact's id.
    return { ...(mayHold(own) ? own : entry(artifact.artifactID)), artifact };
  });
  return (await nameEntries(listed, folder)).entries;
};

const entry = (path: string) => ({ path, mode: "100644", stage: 0, object: "" });
