import { ChevronDown, PanelLeftClose, PanelLeftOpen } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";

/**
 * A side panel of a Task or Mission: a column on wide screens, otherwise a line that opens in place of the main
 * content. The element after it hides itself with `max-xl:peer-data-[open=true]:hidden`. `folded`: on wide screens it
 * is a narrow rail until the user opens it, because the content beside it needs the width.
 */
export const Aside = ({
  label,
  title,
  folded = false,
  children,
}: {
  label: string;
  title: ReactNode;
  folded?: boolean;
  children: ReactNode;
}) => {
  const [open, setOpen] = useState(false);
  const [rail, setRail] = useState(folded);
  useEffect(() => setRail(folded), [folded]);
  return (
    <>
      {rail ? (
        <section aria-label={label} className="hidden w-11 shrink-0 border-r border-line py-3 xl:block">
          <button
            type="button"
            className="button button-quiet mx-1 px-2"
            aria-label={`Show the column: ${label}`}
            onClick={() => setRail(false)}
          >
            <PanelLeftOpen size={17} aria-hidden="true" />
          </button>
        </section>
      ) : (
        <section
          aria-label={label}
          className="hidden w-90 shrink-0 overflow-y-auto border-r border-line px-3 py-4 xl:block 2xl:w-108"
          tabIndex={0}
        >
          <div className="mb-2 flex items-center gap-2 px-2">
            <h2 className="flex flex-1 items-baseline gap-2 text-sm font-semibold">{title}</h2>
            {folded && (
              <button
                type="button"
                className="button button-quiet px-2"
                aria-label={`Hide the column: ${label}`}
                onClick={() => setRail(true)}
              >
                <PanelLeftClose size={17} aria-hidden="true" />
              </button>
            )}
          </div>
          {children}
        </section>
      )}
      <section
        aria-label={label}
        data-open={open}
        className="peer flex min-h-0 shrink-0 flex-col border-b border-line data-[open=true]:flex-1 data-[open=true]:border-b-0 xl:hidden"
      >
        <h2 className="shrink-0">
          <button
            type="button"
            aria-expanded={open}
            onClick={() => setOpen(!open)}
            className="flex min-h-10 w-full items-center gap-2 px-4 py-2 text-sm font-semibold -outline-offset-2 sm:px-6"
          >
            <span className="flex flex-1 items-baseline gap-2">{title}</span>
            <ChevronDown
              size={16}
              aria-hidden="true"
              className={`text-faint transition-transform ${open ? "rotate-180" : ""}`}
            />
          </button>
        </h2>
        {open && (
          <div
            className="min-h-0 flex-1 animate-rise overflow-y-auto border-t border-line px-2 py-3 sm:px-4"
            tabIndex={0}
          >
            {children}
          </div>
        )}
      </section>
    </>
  );
};
