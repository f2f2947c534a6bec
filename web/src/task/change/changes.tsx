import { useMutation, useQuery } from "@tanstack/react-query";
import { Columns2, MessageSquare, Rows2 } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import type { ViewType } from "react-diff-view";
import "react-diff-view/style/index.css";
import type { TaskBoard } from "../../../../src/protocol/task/board.ts";
import { ask, client, wordsOf } from "../../api.ts";
import { useKeys } from "../../component/keyboard.ts";
import { Empty, Failure, Waiting } from "../../component/layout/empty.tsx";
import { say } from "../../component/layout/toast.tsx";
import { count } from "../../format.ts";
import { keepDiffView, readDiffView } from "../../settings.ts";
import type { Turn } from "../conversation/fold.ts";
import type { Log } from "../conversation/log.ts";
import "./diff.css";
import { FileDiff } from "./file-diff.tsx";
import { idOf, inOrder, parse, pathOf, sumOf, treeOf } from "./files.ts";
import { messageOf, useReview } from "./review.ts";
import { scopesOf } from "./scope.ts";
import { Tree } from "./tree.tsx";
import { patchesOf } from "./turn-diff.ts";
import { markOf, useViewed } from "./viewed.ts";

/**
 * The changes of the whole Task, of one turn, or between two commits, with comments that are sent to the Task as one
 * message.
 */

const layouts = [
  ["unified", "Unified", Rows2],
  ["split", "Split", Columns2],
] as const;

/** Wide enough for two columns of a hundred characters, with everything beside them. */
const wideEnough = "(min-width: 100rem)";

const Layout = ({ view, onView }: { view: ViewType; onView: (view: ViewType) => void }) => (
  <div role="group" aria-label="Layout" className="flex rounded-lg border border-line bg-card p-1 max-md:hidden">
    {layouts.map(([value, words, Icon]) => (
      <button
        key={value}
        type="button"
        aria-pressed={view === value}
        onClick={() => onView(value)}
        className={`flex items-center gap-2 rounded-md px-2 py-1 text-sm ${view === value ? "bg-hover font-medium" : "text-soft"}`}
      >
        <Icon size={15} aria-hidden="true" />
        {words}
      </button>
    ))}
  </div>
);

const ReviewBar = ({
  review,
  onSend,
}: {
  review: ReturnType<typeof useReview>;
  onSend: (text: string) => Promise<string>;
}) => {
  const send = useMutation({
    mutationFn: () => onSend(messageOf(review.comments)),
    onSuccess: (words) => {
      review.clear();
      say(words);
    },
    onError: (error) => say(wordsOf(error)),
  });
  if (review.comments.length === 0) return null;
  return (
    <section
      aria-label="Review"
      className="flex shrink-0 flex-wrap items-center gap-3 border-b border-line bg-accent-tint px-4 py-2 sm:px-6"
    >
      <MessageSquare size={15} aria-hidden="true" className="text-accent" />
      <span className="flex-1 text-sm">{count(review.comments.length, "comment")}</span>
      <button type="button" className="button" onClick={review.clear}>
        Discard
      </button>
      <button type="button" className="button button-primary" disabled={send.isPending} onClick={() => send.mutate()}>
        Send review
      </button>
    </section>
  );
};

export const Changes = ({
  board,
  log,
  onSend,
}: {
  board: TaskBoard;
  log: Log;
  /** Sends a message to the Task; resolves to the confirmation to show. */
  onSend: (text: string) => Promise<string>;
}) => {
  const { taskID } = board.task;
  const [view, setView] = useState<ViewType>(
    () => readDiffView() ?? (matchMedia(wideEnough).matches ? "split" : "unified"),
  );
  const [narrow] = useState(() => matchMedia("(max-width: 48rem)").matches);
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
  const tree = useMemo(() => treeOf(parse(text)), [text]);
  const files = useMemo(() => inOrder(tree), [tree]);
  const [limit, setLimit] = useState(100);
  useEffect(() => setLimit(100), [chosen]);
  const review = useReview(taskID);
  const [viewed, toggle] = useViewed(taskID);

  const pane = useRef<HTMLDivElement>(null);
  /** The file at the top of the window. */
  const current = (): number => {
    const top = pane.current?.getBoundingClientRect().top ?? 0;
    const shown = files.slice(0, limit);
    const at = shown.findLastIndex(
      (file) =>
        (document.getElementById(idOf(file))?.getBoundingClientRect().top ?? Number.POSITIVE_INFINITY) <= top + 8,
    );
    return Math.max(0, at);
  };
  const step = (by: number) => {
    const file = files[Math.min(files.length - 1, Math.max(0, current() + by))];
    if (file === undefined) return;
    const element = document.getElementById(idOf(file));
    element?.scrollIntoView({ block: "start" });
    element?.querySelector("button")?.focus({ preventScroll: true });
  };
  useKeys({
    n: () => step(1),
    p: () => step(-1),
    v: () => {
      const file = files[current()];
      if (file !== undefined) toggle(file);
    },
  });

  const sums = sumOf(files);
  const seen = files.filter((file) => viewed.has(markOf(file))).length;
  return (
    <div className="flex h-full min-h-0 flex-col">
      <h2 className="sr-only">Changes</h2>
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
          {seen > 0 && <span>{seen} viewed</span>}
        </span>
        <span className="flex-1" />
        <Layout
          view={view}
          onView={(next) => {
            setView(next);
            keepDiffView(next);
          }}
        />
      </div>
      <ReviewBar review={review} onSend={onSend} />
      <div className="flex min-h-0 flex-1">
        {files.length > 1 && (
          <nav
            aria-label="Changed files"
            className="hidden w-56 shrink-0 overflow-y-auto border-r border-line px-2 py-2 lg:block"
          >
            <Tree folder={tree} isViewed={(file) => viewed.has(markOf(file))} />
          </nav>
        )}
        <div
          ref={pane}
          className="min-w-0 flex-1 overflow-y-auto px-2 pb-6 sm:px-4"
          tabIndex={0}
          role="region"
          aria-label="Diff"
        >
          {error !== null && scope.kind !== "turn" ? (
            <Failure words={wordsOf(error)} onRetry={() => void refetch()} />
          ) : isPending && scope.kind !== "turn" ? (
            <Waiting lines={6} />
          ) : files.length === 0 ? (
            <Empty title={board.task.lifecycleStatus === "active" ? "Nothing changed yet" : "Nothing changed"}>
              <p>{scope.kind === "whole" ? "The Task has not changed any files." : "No files differ."}</p>
            </Empty>
          ) : (
            <div className="flex flex-col gap-3">
              {files.slice(0, limit).map((file) => (
                <FileDiff
                  key={`${chosen}-${pathOf(file)}`}
                  file={file}
                  view={narrow ? "unified" : view}
                  review={review}
                  viewed={viewed.has(markOf(file))}
                  onViewed={() => toggle(file)}
                />
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
