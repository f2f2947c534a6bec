import { useState } from "react";
import type { LongText } from "../../../../src/protocol/text.ts";
import { wordsOf } from "../../api.ts";
import { bytes, clock, moment } from "../../format.ts";

/** Parts that the rows of a conversation share. */

export const At = ({ at }: { at: string }) => (
  <time dateTime={at} title={moment(at)} className="tabular text-xs text-faint">
    {clock(at)}
  </time>
);

/** A text that may be longer than 16 KiB: then the log has only its beginning, and the rest is loaded on request. */
export const Whole = ({
  text,
  load,
  children,
}: {
  text: LongText;
  load: () => Promise<string>;
  children: (text: string) => React.ReactNode;
}) => {
  const [whole, setWhole] = useState<string | undefined>();
  const [trouble, setTrouble] = useState<string | undefined>();
  if (typeof text === "string") return <>{children(text)}</>;
  return (
    <>
      {children(whole ?? text.head)}
      {whole === undefined && (
        <button
          type="button"
          className="button mt-2 text-sm"
          onClick={() => void load().then(setWhole, (error: unknown) => setTrouble(wordsOf(error)))}
        >
          Show all, {bytes(text.blob.bytes)}
        </button>
      )}
      {trouble !== undefined && <p className="text-sm text-fail">{trouble}</p>}
    </>
  );
};

/** Loads the message of an event with its complete texts. */
export type ReadMessage = (
  eventID: number,
) => Promise<{ text: string; calls: { callID: string; input?: unknown; output: string | null }[] }>;
