import { type ReactNode, useId } from "react";

/** A form field with its label above and a line of help below. */
export const Labelled = ({
  label,
  hint,
  children,
}: {
  label: string;
  hint?: string;
  children: (id: string) => ReactNode;
}) => {
  const id = useId();
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <label htmlFor={id} className="label">
        {label}
      </label>
      {children(id)}
      {hint !== undefined && <span className="text-xs text-faint">{hint}</span>}
    </div>
  );
};

/** A number above 0; empty: no limit. */
export const Amount = ({
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
      <input
        id={id}
        type="number"
        min="0"
        step="any"
        inputMode="decimal"
        className="field"
        placeholder="no limit"
        value={value}
        onChange={({ target }) => onChange(target.value)}
      />
    )}
  </Labelled>
);
