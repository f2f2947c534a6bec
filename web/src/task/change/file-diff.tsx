import { Check, ChevronRight, MessageSquarePlus } from "lucide-react";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import {
  type ChangeData,
  Diff,
  type FileData,
  getChangeKey,
  Hunk,
  type HunkTokens,
  type ViewType,
} from "react-diff-view";
import { Draft, Kept } from "./comment.tsx";
import { foldedFor, idOf, lineOf, nowAt, pathOf, rowsOf, sizeOf } from "./files.ts";
import type { Comment, useReview } from "./review.ts";

/**
 * One file of a diff. Its table is rendered only when it comes near the window, because thousands of rows at once
 * freeze a page.
 */

type Place = Omit<Comment, "text">;
type Review = ReturnType<typeof useReview>;

const kinds: Record<string, string> = {
  add: "added",
  delete: "deleted",
  rename: "renamed",
  copy: "copied",
  modify: "",
};

/** A row's estimated height in pixels, until the rows are rendered. */
const rowHeight = 20;

/** Becomes true once the element is close to the window, and stays true. */
const useNear = () => {
  const element = useRef<HTMLDivElement>(null);
  const [near, setNear] = useState(false);
  useEffect(() => {
    if (element.current === null || near) return undefined;
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) setNear(true);
      },
      { rootMargin: "600px" },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [near]);
  return { element, near };
};

/** The colours of the code; undefined until they are computed, after the text is shown. */
const useTokens = (file: FileData): HunkTokens | undefined => {
  const [tokens, setTokens] = useState<HunkTokens | undefined>();
  useEffect(() => {
    let gone = false;
    void import("./tokens.ts").then(({ tokensOf }) => {
      if (!gone) setTokens(tokensOf(file));
    });
    return () => {
      gone = true;
    };
  }, [file]);
  return tokens;
};

const Table = ({ file, view, review }: { file: FileData; view: ViewType; review: Review }) => {
  const tokens = useTokens(file);
  const path = nowAt(file);
  const [writing, setWriting] = useState<Place | undefined>();
  const placeOf = (change: ChangeData): Place => ({
    key: `${path} ${getChangeKey(change)}`,
    path,
    line: lineOf(change),
    before: change.type === "delete",
    code: change.content,
  });
  const close = () => setWriting(undefined);
  const here = review.comments.filter((comment) => comment.path === path && comment.line !== null);
  const widgets: Record<string, ReactNode> = {};
  for (const comment of here)
    widgets[comment.key.slice(path.length + 1)] = (
      <Kept comment={comment} onEdit={() => setWriting(comment)} onDrop={() => review.drop(comment.key)} />
    );
  if (writing !== undefined)
    widgets[writing.key.slice(path.length + 1)] = (
      <Draft
        place={writing}
        text={here.find(({ key }) => key === writing.key)?.text ?? ""}
        onClose={close}
        onKeep={(comment) => {
          review.put(comment);
          close();
        }}
      />
    );
  return (
    <Diff
      viewType={view}
      diffType={file.type}
      hunks={file.hunks}
      widgets={widgets}
      className={file.type === "add" ? "diff-new" : file.type === "delete" ? "diff-old" : ""}
      {...(tokens === undefined ? {} : { tokens })}
      renderGutter={({ change, side, renderDefault }) =>
        (side === "old" ? change.type === "insert" : change.type === "delete") ? null : (
          // For the mouse only: with the keyboard, the file's own button is used, so that a table does not have a
          // thousand tab stops.
          <button
            type="button"
            tabIndex={-1}
            className="w-full cursor-pointer text-end hover:text-accent"
            aria-label={`Comment on line ${lineOf(change)}${change.type === "delete" ? " before" : ""}`}
            onClick={() => setWriting(placeOf(change))}
          >
            {renderDefault()}
          </button>
        )
      }
    >
      {(hunks) => hunks.map((hunk) => <Hunk key={hunk.content} hunk={hunk} />)}
    </Diff>
  );
};

const Body = ({ file, view, review }: { file: FileData; view: ViewType; review: Review }) => {
  const { element, near } = useNear();
  return file.hunks.length === 0 ? (
    <p className="px-4 py-3 text-sm text-soft">{file.isBinary ? "Binary file" : "No text changes"}</p>
  ) : (
    <div ref={element} className="overflow-x-auto" tabIndex={0} role="region" aria-label={`Changes of ${pathOf(file)}`}>
      {near ? <Table file={file} view={view} review={review} /> : <div style={{ height: rowsOf(file) * rowHeight }} />}
    </div>
  );
};

export const FileDiff = ({
  file,
  view,
  review,
  viewed,
  onViewed,
}: {
  file: FileData;
  view: ViewType;
  review: Review;
  viewed: boolean;
  onViewed: () => void;
}) => {
  const { added, removed } = sizeOf(file);
  const why = foldedFor(file);
  const [open, setOpen] = useState(why === undefined);
  const [noting, setNoting] = useState(false);
  const path = pathOf(file);
  const place: Place = useMemo(
    () => ({ key: nowAt(file), path: nowAt(file), line: null, before: false, code: "" }),
    [file],
  );
  const note = review.comments.find(({ key }) => key === place.key);
  const shown = open && !viewed;
  return (
    <section id={idOf(file)} aria-label={path} className="card scroll-mt-1 overflow-clip">
      <h3 className="sticky top-0 z-10 flex items-center gap-1 border-b border-line bg-card pe-2">
        <button
          type="button"
          aria-expanded={shown}
          onClick={() => {
            if (viewed) onViewed();
            setOpen(viewed || !open);
          }}
          className="flex min-w-0 flex-1 items-center gap-2 px-3 py-2 text-start text-sm -outline-offset-2 hover:bg-hover"
        >
          <ChevronRight
            size={15}
            aria-hidden="true"
            className={`shrink-0 text-faint transition-transform ${shown ? "rotate-90" : ""}`}
          />
          <code className="min-w-0 flex-1 font-mono text-xs font-medium [overflow-wrap:anywhere]">{path}</code>
          {!shown && why !== undefined && <span className="text-xs text-soft">{why}</span>}
          {kinds[file.type] !== "" && <span className="text-xs text-soft max-sm:hidden">{kinds[file.type]}</span>}
          <span className="tabular flex gap-2 text-xs">
            <span className="text-done">+{added}</span>
            <span className="text-fail">−{removed}</span>
          </span>
        </button>
        <button
          type="button"
          className="button button-quiet px-2"
          aria-label={`Comment on ${path}`}
          title="Comment on this file"
          onClick={() => setNoting(true)}
        >
          <MessageSquarePlus size={15} aria-hidden="true" />
        </button>
        <button
          type="button"
          aria-pressed={viewed}
          aria-label={`Viewed ${path}`}
          title="Viewed (v)"
          onClick={onViewed}
          className={`button button-quiet px-2 ${viewed ? "text-done" : "text-faint"}`}
        >
          <Check size={16} aria-hidden="true" />
        </button>
      </h3>
      {noting ? (
        <Draft
          place={place}
          text={note?.text ?? ""}
          onClose={() => setNoting(false)}
          onKeep={(comment) => {
            review.put(comment);
            setNoting(false);
          }}
        />
      ) : (
        note !== undefined && (
          <Kept comment={note} onEdit={() => setNoting(true)} onDrop={() => review.drop(note.key)} />
        )
      )}
      {shown && <Body file={file} view={view} review={review} />}
    </section>
  );
};
