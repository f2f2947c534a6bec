import type { Call } from "./fold.ts";
import { DiffText } from "../../component/text/diff.tsx";

/** A call's arguments in their most readable form: a single text as it is, several by name, anything else as JSON. */

const box = "code max-h-80 overflow-auto rounded-lg bg-sunk p-2 whitespace-pre-wrap";

const Text = ({ label, value }: { label: string; value: unknown }) => (
  <pre className={box} tabIndex={0} aria-label={label} role="region">
    {typeof value === "string" ? <DiffText text={value} /> : JSON.stringify(value, null, 2)}
  </pre>
);

/** The replacements of an edit, in the form of a diff. */
export const replaced = (edits: unknown): unknown =>
  Array.isArray(edits)
    ? edits
        .map(({ old, new: fresh }: { old?: unknown; new?: unknown }) =>
          ["@@ @@", ...marked("-", old), ...marked("+", fresh)].join("\n"),
        )
        .join("\n")
    : edits;

export const marked = (sign: string, text: unknown): string[] =>
  typeof text === "string" && text !== ""
    ? text
        .replace(/\n$/, "")
        .split("\n")
        .map((line) => `${sign}${line}`)
    : [];

export const Arguments = ({ call }: { call: Call }) => {
  const { input } = call;
  if (typeof input !== "object" || input === null || "blob" in input) return <Text label="Input" value={input} />;
  const all = Object.entries(input);
  const [only] = all;
  if (all.length === 1 && only !== undefined) return <Text label="Input" value={only[1]} />;
  return (
    <>
      {all
        // The call's own line already shows the path.
        .filter(([name]) => name !== "path")
        .map(([name, value]) => (
          <div key={name} className="flex flex-col gap-1">
            <span className="label">{name}</span>
            <Text label={`Input, ${name}`} value={call.tool === "edit" && name === "edits" ? replaced(value) : value} />
          </div>
        ))}
    </>
  );
};
