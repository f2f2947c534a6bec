import { useState } from "react";
import type { FileData } from "react-diff-view";
import { keepViewed, readViewed } from "../../settings.ts";
import { pathOf, sizeOf } from "./files.ts";

/** Which files of a Task's changes were looked at, in this browser. */

/** A file is known by its content too, so that it is to be looked at again when it changes. */
export const markOf = (file: FileData): string => {
  const { added, removed } = sizeOf(file);
  return `${pathOf(file)} ${file.newRevision ?? ""} ${added} ${removed}`;
};

export const useViewed = (taskID: string): [ReadonlySet<string>, (file: FileData) => void] => {
  const [viewed, setViewed] = useState<ReadonlySet<string>>(() => new Set(readViewed(taskID)));
  const toggle = (file: FileData) => {
    const next = new Set(viewed);
    if (!next.delete(markOf(file))) next.add(markOf(file));
    keepViewed(taskID, [...next]);
    setViewed(next);
  };
  return [viewed, toggle];
};
