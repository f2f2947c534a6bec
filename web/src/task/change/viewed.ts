import { useState } from "react";
import type { FileData } from "react-diff-view";
import { keepViewed, readViewed } from "../../settings.ts";
import { pathOf, sizeOf } from "./files.ts";

/** The files of a Task's changes that the user has viewed in this browser. */

/** Identifies a file with its content, so that a file that changes counts as not viewed again. */
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
