import { Labelled } from "./field.tsx";

/** Why something is stopped, in free words; none has to be given. */
export const ReasonField = ({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string;
  onChange: (value: string) => void;
}) => (
  <Labelled label={label}>
    {(id) => (
      <textarea
        id={id}
        dir="auto"
        rows={2}
        className="field"
        value={value}
        onChange={({ target }) => onChange(target.value)}
      />
    )}
  </Labelled>
);

/** For the body of a request: absent where nothing was written. */
export const given = (reason: string): { reason?: string } => (reason.trim() === "" ? {} : { reason: reason.trim() });
