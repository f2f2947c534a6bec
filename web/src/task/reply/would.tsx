import { DiffText } from "../../component/text/diff.tsx";
import { Arguments, marked, replaced } from "../conversation/arguments.tsx";
import type { Call } from "../conversation/fold.ts";
import type { Log } from "../conversation/log.ts";
import { type ReadMessage, Whole } from "../conversation/long-text.tsx";

/** Shows what a permission would allow: the command, or the file with its change. */

/** The call that waits for the answer to this ask. */
export const callOf = (log: Log, askID: string): Call | undefined => {
  const opened = log.frames().findLast((frame) => frame.type === "ask.opened" && frame.data.askID === askID);
  const callID = opened?.type === "ask.opened" ? opened.data.callID : undefined;
  return log
    .items()
    .flatMap((item) => (item.kind === "turn" ? item.calls : []))
    .findLast((call) => call.callID === callID);
};

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** The call in words, and a body with the lines of a diff marked; undefined: its arguments are shown instead. */
const shownOf = ({ tool, input }: Call): { words: string; body: string } | undefined => {
  if (typeof input !== "object" || input === null) return undefined;
  const given = input as Record<string, unknown>;
  const path = text(given["path"]);
  const command = text(given["command"]);
  const content = text(given["content"]);
  const patch = text(given["patch"]);
  if (command !== undefined) {
    const cwd = text(given["cwd"]);
    return { words: cwd === undefined ? "It would run" : `It would run in ${cwd}`, body: command };
  }
  if (tool === "write" && path !== undefined && content !== undefined)
    return { words: `It would write ${path}`, body: ["@@ the whole file @@", ...marked("+", content)].join("\n") };
  if (tool === "edit" && path !== undefined)
    return { words: `It would change ${path}`, body: String(replaced(given["edits"])) };
  return patch === undefined ? undefined : { words: "It would apply", body: patch };
};

const Shown = ({ call }: { call: Call }) => {
  const shown = shownOf(call);
  if (shown === undefined) return <Arguments call={call} />;
  return (
    <>
      <p className="text-sm [overflow-wrap:anywhere] text-soft">{shown.words}</p>
      <pre
        className="code max-h-[min(16rem,18dvh)] sm:max-h-[min(16rem,28dvh)] overflow-auto rounded-lg bg-card p-2 whitespace-pre-wrap"
        tabIndex={0}
        aria-label={shown.words}
        role="region"
      >
        <DiffText text={shown.body} />
      </pre>
    </>
  );
};

const isLong = (input: unknown): input is { blob: { sha256: string; bytes: number }; head: string } =>
  typeof input === "object" && input !== null && "blob" in input && "head" in input;

export const Would = ({ call, read }: { call: Call; read: ReadMessage }) => (
  <div className="mt-2 flex flex-col gap-2">
    {isLong(call.input) ? (
      <Whole
        text={call.input}
        load={async () => {
          const { calls } = await read(call.eventID);
          return JSON.stringify(calls.find(({ callID }) => callID === call.callID)?.input ?? null);
        }}
      >
        {(whole) => <Shown call={{ ...call, input: parsed(whole) }} />}
      </Whole>
    ) : (
      <Shown call={call} />
    )}
  </div>
);

/** The arguments; or the text itself, if it is only the beginning of some JSON. */
const parsed = (whole: string): unknown => {
  try {
    return JSON.parse(whole);
  } catch {
    return whole;
  }
};
