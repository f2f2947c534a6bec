import { X } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef } from "react";

/** The browser's modal dialog: it traps the focus, closes on Escape, and makes the rest of the page inert. */
export const Dialog = ({
  open,
  onClose,
  title,
  children,
  wide = false,
  bare = false,
}: {
  open: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  wide?: boolean;
  /** Only screen readers get the title. */
  bare?: boolean;
}) => {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const element = dialog.current;
    if (element === null) return;
    if (open && !element.open) element.showModal();
    if (!open && element.open) element.close();
  }, [open]);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={heading}
      onClose={onClose}
      onMouseDown={(event) => {
        // The content fills the dialog, so a press on the dialog element itself is a press on the backdrop.
        if (event.target === dialog.current) onClose();
      }}
      className={`fixed inset-x-0 top-[12vh] mx-auto my-0 max-h-[76vh] w-[calc(100vw-24px)] overflow-auto rounded-2xl border border-line bg-card p-0 shadow-float open:animate-rise ${wide ? "max-w-2xl" : "max-w-lg"}`}
    >
      {open && (
        <div className={bare ? "" : "p-5"}>
          <div className={bare ? "sr-only" : "mb-4 flex items-start justify-between gap-4"}>
            <h2 id={heading} className="text-lg font-semibold">
              {title}
            </h2>
            {!bare && (
              <button
                type="button"
                className="button button-quiet -mt-1 -mr-2 px-2"
                onClick={onClose}
                aria-label="Close"
              >
                <X size={18} aria-hidden="true" />
              </button>
            )}
          </div>
          {children}
        </div>
      )}
    </dialog>
  );
};
