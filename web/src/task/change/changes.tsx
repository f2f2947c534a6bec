import { useQuery } from "@tanstack/react-query";
import { Columns2, FileText, Rows2 } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import { Diff, type FileData, Hunk, parseDiff, type ViewType } from "react-diff-view";
import "react-diff-view/style/index.css";
import type { TaskBoard } from "../../../../src/protocol/task/board.ts";
import { ask, client, wordsOf } from "../../api.ts";
import { Empty, Failure, Waiting } from "../../component/layout/empty.tsx";
import { count, duration, short } from "../../format.ts";
import type { Turn } from "../conversation/fold.ts";
import type { Log } from "../conversation/log.ts";
import { patchesOf } from "./turn-diff.ts";

/** What changed: by the whole Task, in one turn, or between two commits. */

/** Files with more lines open on request, because a table of ten thousand rows is slow to lay out. */
const openLines = 600;

const sizeOf = ({ hunks }: FileData) => {
  let added = 0;
  let removed = 0;
  for (const { changes } of hunks)
    for (const { type } of changes)
      if (type === "insert") added += 1;
      else if (type === "delete") removed += 1;
  return { added, removed };
};

const pathOf = ({ oldPath, newPath, type }: FileData): string =>
  type === "delete" ? oldPath : type === "rename" && oldPath !== newPath ? `${oldPath} → ${newPath}` : newPath;

const kinds: Record<string, string> = {
  add: "added",
  delete: "deleted",
  rename: "renamed",
  copy: "copied",
  modify: "",
};

const idOf = (file: FileData): string => `file-${pathOf(file).replaceAll(/[^\w.-]/g, "_")}`;

const FileDiff = ({ file, view }: { file: FileData; view: ViewType }) => {
  const { added, removed } = sizeOf(file);
  const [open, setOpen] = useState(added + removed <= openLines);
  const path = pathOf(file);
  return (
    <section id={idOf(file)} aria-label={path} className="card overflow-hidden">
      <h3 className="sticky top-0 z-10 border-b border-line bg-card">
        <button
          type="button"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
          className="flex w-full items-center gap-3 px-4 py-2 text-start text-sm -outline-offset-2 hover:bg-hover"
        >
          <code className="min-w-0 flex-1 font-mono text-xs font-medium [overflow-wrap:anywhere]">{path}</code>
          {kinds[file.type] !== "" && <span className="text-xs text-soft">{kinds[file.type]}</span>}
          <span className="tabular flex gap-2 text-xs">
            <span className="text-done">+{added}</span>
            <span className="text-fail">−{removed}</span>
          </span>
        </button>
      </h3>
      {open &&
        (file.hunks.length === 0 ? (
          <p className="px-4 py-3 text-sm text-soft">{file.isBinary ? "A binary file" : "Nothing in its text"}</p>
        ) : (
          <div className="overflow-x-auto" tabIndex={0} role="region" aria-label={`Changes of ${path}`}>
            <Diff viewType={view} diffType={file.type} hunks={file.hunks}>
              {(hunks) => hunks.map((hunk) => <Hunk key={hunk.content} hunk={hunk} />)}
            </Diff>
          </div>
        ))}
    </section>
  );
};

const parse = (text: string): FileData[] => {
  try {
    return text.trim() === "" ? [] : parseDiff(text, { nearbySequences: "zip" });
  } catch {
    return [];
  }
};

type Scope =
  | { kind: "whole" }
  | { kind: "commit"; from: string; to: string; words: string }
  | { kind: "turn"; id: number };

const scopesOf = (log: Log): { value: string; words: string; scope: Scope }[] => {
  const commits = log.frames().flatMap((frame) => (frame.type === "tree.committed" ? [frame.data] : []));
  const turns = log.items().filter((item): item is Turn => item.kind === "turn" && patchesOf(item) !== "");
  return [
    { value: "whole", words: "The whole Task", scope: { kind: "whole" } },
    ...commits.map(({ commit, parent }, index) => {
      const from = commits[index - 1]?.commit ?? parent;
      const words = `Commit ${short(commit)}, round ${index + 1}`;
      return { value: `commit-${commit}`, words, scope: { kind: "commit" as const, from, to: commit, words } };
    }),
    ...turns.map((turn, index) => ({
      value: `turn-${turn.id}`,
      words: `Turn ${index + 1}, ${turn.agent}, ${duration(turn.durationMs)}`,
      scope: { kind: "turn" as const, id: turn.id },
    })),
  ];
};

export const Changes = ({ board, log }: { board: TaskBoard; log: Log }) => {
  const { taskID } = board.task;
  const [wide] = useState(() => matchMedia("(min-width: 90rem)").matches);
  const [view, setView] = useState<ViewType>(wide ? "split" : "unified");
  const [chosen, setChosen] = useState("whole");
  const frames = log.frames();
  const scopes = useMemo(() => scopesOf(log), [frames, log]);
  const scope = scopes.find(({ value }) => value === chosen)?.scope ?? { kind: "whole" };
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["diff", taskID, chosen, scope.kind === "whole" ? board.lastEventID : 0],
    queryFn: async ({ signal }): Promise<string> => {
      const query = scope.kind === "commit" ? { from: scope.from, to: scope.to } : {};
      return ask(client.task.diff({ path: { taskID }, query, signal, parseAs: "text" }));
    },
    enabled: scope.kind !== "turn",
    placeholderData: (before) => before,
  });
  const text = useMemo(() => {
    if (scope.kind !== "turn") return data ?? "";
    const turn = log.items().find((item): item is Turn => item.kind === "turn" && item.id === scope.id);
    return turn === undefined ? "" : patchesOf(turn);
  }, [scope, data, log]);
  const files = useMemo(() => parse(text), [text]);
  const [limit, setLimit] = useState(50);
  useEffect(() => setLimit(50), [chosen]);
  const sums = files
    .map(sizeOf)
    .reduce((sum, { added, removed }) => ({ added: sum.added + added, removed: sum.removed + removed }), {
      added: 0,
      removed: 0,
    });
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex shrink-0 flex-wrap items-center gap-2 px-4 py-2 sm:px-6">
        <select
          aria-label="Which changes"
          className="field w-auto max-w-64 text-sm"
          value={chosen}
          onChange={({ target }) => setChosen(target.value)}
        >
          {scopes.map(({ value, words }) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
        <span role="status" className="tabular flex gap-2 text-sm text-soft">
          {count(files.length, "file")}
          <span className="text-done">+{sums.added}</span>
          <span className="text-fail">−{sums.removed}</span>
        </span>
        <span className="flex-1" />
        <div
          role="group"
          aria-label="Layout"
          className="flex rounded-lg border border-line bg-card p-0.5 max-md:hidden"
        >
          {(
            [
              ["unified", "Unified", Rows2],
              ["split", "Split", Columns2],
            ] as const
          ).map(([value, words, Icon]) => (
            <button
              key={value}
              type="button"
              aria-pressed={view === value}
              onClick={() => setView(value)}
              className={`flex items-center gap-1.5 rounded-md px-2.5 py-1 text-sm ${view === value ? "bg-hover font-medium" : "text-soft"}`}
            >
              <Icon size={15} aria-hidden="true" />
              {words}
            </button>
          ))}
        </div>
      </div>
      <div className="flex min-h-0 flex-1">
        {files.length > 1 && (
          <nav
            aria-label="Changed files"
            className="hidden w-64 shrink-0 overflow-y-auto border-r border-line px-2 py-2 lg:block"
          >
            <ul className="flex flex-col gap-0.5">
              {files.map((file) => {
                const { added, removed } = sizeOf(file);
                const path = pathOf(file);
                return (
                  <li key={path}>
                    <a
                      href={`#${idOf(file)}`}
                      className="flex items-center gap-2 rounded-md px-2 py-1 text-sm hover:bg-hover"
                      title={path}
                    >
                      <FileText size={14} aria-hidden="true" className="shrink-0 text-faint" />
                      <span className="min-w-0 flex-1">
                        <span className="block truncate">{path.split("/").at(-1)}</span>
                        {path.includes("/") && (
                          <span className="block truncate text-xs text-faint">
                            {path.slice(0, path.lastIndexOf("/"))}
                          </span>
                        )}
                      </span>
                      <span className="tabular shrink-0 text-xs">
                        <span className="text-done">+{added}</span> <span className="text-fail">−{removed}</span>
                      </span>
                    </a>
                  </li>
                );
              })}
            </ul>
          </nav>
        )}
        <div className="min-w-0 flex-1 overflow-y-auto px-4 pb-6 sm:px-6" tabIndex={0} role="region" aria-label="Diff">
          {error !== null && scope.kind !== "turn" ? (
            <Failure words={wordsOf(error)} onRetry={() => void refetch()} />
          ) : isPending && scope.kind !== "turn" ? (
            <Waiting lines={6} />
          ) : files.length === 0 ? (
            <Empty title={board.task.lifecycleStatus === "active" ? "Nothing changed yet" : "Nothing changed"}>
              <p>
                {scope.kind === "whole" ? "The Task has not changed a file of the project." : "No file differs here."}
              </p>
            </Empty>
          ) : (
            <div className="flex flex-col gap-4">
              {files.slice(0, limit).map((file) => (
                <FileDiff key={`${chosen}-${pathOf(file)}`} file={file} view={view} />
              ))}
              {files.length > limit && (
                <button type="button" className="button self-center" onClick={() => setLimit(limit + 100)}>
                  {files.length - limit} more files
                </button>
              )}
            </div>
          )}
        </div>
      </div>
    </div>
  );
};
