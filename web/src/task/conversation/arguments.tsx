import type { Call } from "./fold.ts";
import { DiffText } from "../../component/text/diff.tsx";

/** A call's arguments in their most readable form: a single text unchanged, several by name, anything else as JSON. */

const box = "code max-h-80 overflow-auto rounded-lg bg-sunk p-2.5 whitespace-pre-wrap";

const Text = ({ label, value }: { label: string; value: unknown }) => (
  <pre className={box} tabIndex={0} aria-label={label} role="region">
    {typeof value === "string" ? <DiffText text={value} /> : JSON.stringify(value, null, 2)}
  </pre>
);

/** Whether an argument is already visible in the call's own line, or in its result. */
const isToldElsewhere = (call: Call, name: string): boolean =>
  name === "path" || (call.tool === "edit" && name === "edits" && call.state === "ok");

export const Arguments = ({ call }: { call: Call }) => {
  const { input } = call;
  if (typeof input !== "object" || input === null || "blob" in input) return <Text label="Input" value={input} />;
  const all = Object.entries(input);
  const [only] = all;
  if (all.length === 1 && only !== undefined) return <Text label="Input" value={only[1]} />;
  return (
    <>
      {all
        .filter(([name]) => !isToldElsewhere(call, name))
        .map(([name, value]) => (
          <div key={name} className="flex flex-col gap-1">
            <span className="label">{name}</span>
            <Text label={`Input, ${name}`} value={value} />
          </div>
        ))}
    </>
  );
};
