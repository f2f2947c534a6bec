import { MessageSquare } from "lucide-react";
import { useState } from "react";
import type { Comment } from "./review.ts";

/** A comment below the line that it is about, while it is written and until it is sent. */

type Place = Omit<Comment, "text">;

const placeWords = ({ path, line }: Place): string => (line === null ? path : `line ${line} of ${path}`);

export const Draft = ({
  place,
  text: known = "",
  onKeep,
  onClose,
}: {
  place: Place;
  text?: string;
  onKeep: (comment: Comment) => void;
  onClose: () => void;
}) => {
  const [text, setText] = useState(known);
  const keep = () => {
    if (text.trim() !== "") onKeep({ ...place, text: text.trim() });
  };
  return (
    <form
      className="flex flex-col gap-2 border-y border-line bg-card p-3 font-sans text-sm"
      onSubmit={(event) => {
        event.preventDefault();
        keep();
      }}
    >
      <textarea
        aria-label={`Comment on ${placeWords(place)}`}
        placeholder={`Comment on ${placeWords(place)}`}
        dir="auto"
        rows={2}
        autoFocus
        className="field field-sizing-content max-h-60"
        value={text}
        onChange={({ target }) => setText(target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) keep();
          if (event.key !== "Escape") return;
          event.stopPropagation();
          onClose();
        }}
      />
      <span className="flex gap-2">
        <button type="submit" className="button button-primary" disabled={text.trim() === ""}>
          Add to review
        </button>
        <button type="button" className="button" onClick={onClose}>
          Discard
        </button>
      </span>
    </form>
  );
};

export const Kept = ({ comment, onEdit, onDrop }: { comment: Comment; onEdit: () => void; onDrop: () => void }) => (
  <section
    aria-label={`Comment on ${placeWords(comment)}`}
    className="flex items-start gap-2 border-y border-line bg-accent-tint px-3 py-2 font-sans text-sm text-ink"
  >
    <MessageSquare size={14} aria-hidden="true" className="mt-0.5 shrink-0 text-accent" />
    <p className="min-w-0 flex-1 whitespace-pre-wrap [overflow-wrap:anywhere]" dir="auto">
      {comment.text}
    </p>
    <button type="button" className="link shrink-0" onClick={onEdit}>
      Edit
    </button>
    <button type="button" className="link shrink-0" onClick={onDrop}>
      Remove
    </button>
  </section>
);
