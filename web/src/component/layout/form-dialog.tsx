import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { wordsOf } from "../../api.ts";
import { Dialog } from "./dialog.tsx";

/** A dialog for one action: it closes when the action succeeds, and shows the reason when the service refuses. */
export const FormDialog = ({
  title,
  keep,
  action,
  danger = false,
  open,
  onClose,
  onSubmit,
  children,
}: {
  title: string;
  keep: string;
  action: string;
  danger?: boolean;
  open: boolean;
  onClose: () => void;
  onSubmit: () => Promise<unknown>;
  children: ReactNode;
}) => {
  const submit = useMutation({ mutationFn: onSubmit, onSuccess: onClose });
  return (
    <Dialog open={open} onClose={onClose} title={title}>
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          submit.mutate();
        }}
      >
        {children}
        {submit.error !== null && (
          <p role="alert" className="text-fail">
            {wordsOf(submit.error)}
          </p>
        )}
        <div className="flex justify-end gap-2">
          <button type="button" className="button" onClick={onClose}>
            {keep}
          </button>
          <button
            type="submit"
            className={`button ${danger ? "button-danger" : "button-primary"}`}
            disabled={submit.isPending}
          >
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
};
