import { useRef } from "react";
import { Labelled } from "../form/field.tsx";
import { FormDialog } from "./form-dialog.tsx";

/** Asks for a new title; an empty one is not sent. */
export const RenameDialog = ({
  what,
  title,
  open,
  onClose,
  onRename,
}: {
  what: "Task" | "Mission";
  title: string;
  open: boolean;
  onClose: () => void;
  onRename: (title: string) => Promise<unknown>;
}) => {
  const field = useRef<HTMLInputElement>(null);
  return (
    <FormDialog
      title={`Rename this ${what}`}
      keep="Not now"
      action="Rename"
      open={open}
      onClose={onClose}
      onSubmit={() => onRename(field.current?.value.trim() ?? title)}
    >
      <Labelled label="Title">
        {(id) => (
          <input id={id} dir="auto" maxLength={200} required className="field" ref={field} defaultValue={title} />
        )}
      </Labelled>
    </FormDialog>
  );
};
