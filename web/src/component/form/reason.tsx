import { Labelled } from "./field.tsx";

/** An optional field for the reason why the user stops something. */
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

/** The reason as part of a request body; absent if the user gave none. */
export const given = (reason: string): { reason?: string } => (reason.trim() === "" ? {} : { reason: reason.trim() });
