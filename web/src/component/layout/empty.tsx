import { Link } from "@tanstack/react-router";
import { CircleHelp, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { Refused, wordsOf } from "../../api.ts";

/** A placeholder for missing content, with what the user can do about it. */
export const Empty = ({
  title,
  first = false,
  icon: Icon,
  children,
}: {
  title: string;
  first?: boolean;
  icon?: LucideIcon;
  children?: ReactNode;
}) => {
  const Level = first ? "h1" : "h2";
  return (
    <div className="mx-auto flex max-w-lg flex-col items-center gap-3 px-4 py-14 text-center">
      {Icon !== undefined && (
        <span aria-hidden="true" className="mb-1 grid size-11 place-items-center rounded-2xl bg-hover text-faint">
          <Icon size={21} />
        </span>
      )}
      <Level className="text-md font-semibold">{title}</Level>
      {children !== undefined && <div className="flex flex-col items-center gap-3 text-soft">{children}</div>}
    </div>
  );
};

export const Missing = () => (
  <Empty first icon={CircleHelp} title="Page not found">
    <p>The link may be out of date.</p>
    <Link to="/" className="button">
      Back to Tasks
    </Link>
  </Empty>
);

export const Failure = ({ words, onRetry }: { words: string; onRetry?: () => void }) => (
  <div role="alert" className="flex flex-wrap items-center gap-3 rounded-xl bg-fail-tint px-4 py-3 text-fail">
    <p className="min-w-0 flex-1">{words}</p>
    {onRetry !== undefined && (
      <button type="button" className="button" onClick={onRetry}>
        Try again
      </button>
    )}
  </div>
);

/** A screen whose subject cannot be read. It offers no retry if the subject does not exist. */
export const Gone = ({ what, error, onRetry }: { what: string; error: Error; onRetry: () => void }) =>
  error instanceof Refused && error.body.status === 404 ? (
    <Empty first icon={CircleHelp} title={`${what} not found`}>
      <p>It may have been deleted.</p>
      <Link to="/" className="button">
        Back to Tasks
      </Link>
    </Empty>
  ) : (
    <div className="mx-auto flex max-w-2xl flex-col gap-4 px-4 py-10 sm:px-8 sm:py-16">
      <h1 className="text-lg font-semibold tracking-tight">This {what} cannot be shown</h1>
      <Failure words={wordsOf(error)} onRetry={onRetry} />
      <p>
        <Link to="/" className="button">
          Back to Tasks
        </Link>
      </p>
    </div>
  );

/** Grey lines in place of text that is loading. */
export const Waiting = ({ lines = 3, label = "Loading" }: { lines?: number; label?: string }) => (
  <div role="status" aria-label={label} className="flex flex-col gap-3 py-2">
    {Array.from({ length: lines }, (_, line) => (
      <div
        key={line}
        className="h-4 animate-beat rounded bg-hover"
        style={{ width: `${[92, 78, 85, 64][line % 4]}%`, animationDelay: `${line * 120}ms` }}
      />
    ))}
  </div>
);
