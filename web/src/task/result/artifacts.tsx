import { useQuery } from "@tanstack/react-query";
import { ChevronRight, Download } from "lucide-react";
import { useState } from "react";
import type { Artifact } from "../../../../src/protocol/task/status.ts";
import { ask, client, wordsOf } from "../../api.ts";
import { Failure, Waiting } from "../../component/layout/empty.tsx";
import { Markdown } from "../../component/text/markdown.tsx";
import { bytes } from "../../format.ts";
import { mostColumns, mostRows, readTable } from "./csv.ts";

/** Files that were kept with the result. The page shows those that it can; all can be downloaded. */

type Kind = "markdown" | "csv" | "tsv" | "json" | "text" | "image";

/** Larger files can only be downloaded. */
const mostShown = 1024 * 1024;
/** One artifact below this size is open at first: the report, or else the first one. */
const openBelow = 64 * 1024;
const mostCharacters = 200_000;

const kindOf = ({ filename, mime, bytes: size }: Artifact): Kind | undefined => {
  if (/^image\/(?:png|jpeg|gif|webp)$/.test(mime)) return "image";
  if (size > mostShown) return undefined;
  const ending = /\.(\w+)$/.exec(filename.toLowerCase())?.[1] ?? "";
  if (ending === "md" || ending === "markdown" || mime === "text/markdown") return "markdown";
  if (ending === "csv" || mime === "text/csv") return "csv";
  if (ending === "tsv") return "tsv";
  if (ending === "json" || mime === "application/json") return "json";
  return mime.startsWith("text/") ? "text" : undefined;
};

const hrefOf = (taskID: string, { artifactID }: Artifact): string => `/task/${taskID}/artifacts/${artifactID}`;

const Table = ({ text, separator }: { text: string; separator: "," | "\t" }) => {
  const [header = [], ...rows] = readTable(text, separator);
  const shown = rows.slice(0, mostRows);
  return (
    <div className="max-h-96 overflow-auto" tabIndex={0} role="region" aria-label="Table">
      <table className="tabular w-max min-w-full text-sm">
        <thead className="sticky top-0 bg-sunk">
          <tr>
            {header.slice(0, mostColumns).map((cell, index) => (
              <th key={index} scope="col" className="max-w-80 truncate px-3 py-1 text-start font-semibold">
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row, index) => (
            <tr key={index} className="border-t border-line">
              {row.slice(0, mostColumns).map((cell, column) => (
                <td key={column} className="max-w-80 truncate px-3 py-1" title={cell}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown.length && <p className="px-3 py-2 text-sm text-soft">The first {mostRows} rows</p>}
    </div>
  );
};

const indented = (text: string): string => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

const Text = ({ taskID, artifact, kind }: { taskID: string; artifact: Artifact; kind: Exclude<Kind, "image"> }) => {
  const { data, error } = useQuery({
    queryKey: ["artifact", taskID, artifact.artifactID],
    queryFn: async ({ signal }) => {
      const path = { taskID, artifactID: artifact.artifactID };
      return (await ask(client.task.artifact({ path, signal }))).text();
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (error !== null) return <Failure words={wordsOf(error)} />;
  if (data === undefined) return <Waiting lines={3} label="Loading the file" />;
  const text = data.slice(0, mostCharacters);
  switch (kind) {
    case "markdown":
      return (
        <div className="max-h-[60vh] overflow-auto p-4" tabIndex={0} role="region" aria-label={artifact.filename}>
          <Markdown text={text} />
        </div>
      );
    case "csv":
    case "tsv":
      return <Table text={text} separator={kind === "csv" ? "," : "\t"} />;
    case "json":
    case "text":
      return (
        <pre
          className="code max-h-96 overflow-auto p-4"
          tabIndex={0}
          role="region"
          aria-label={artifact.filename}
          dir="auto"
        >
          {kind === "json" ? indented(text) : text}
        </pre>
      );
  }
};

const Kept = ({ taskID, artifact, shown }: { taskID: string; artifact: Artifact; shown: boolean }) => {
  const kind = kindOf(artifact);
  const [open, setOpen] = useState(kind === "image" || shown);
  const href = hrefOf(taskID, artifact);
  const { filename, title } = artifact;
  return (
    <li>
      <div className="flex items-center gap-2 py-1 ps-2 pe-1">
        {kind === undefined ? (
          <span className="w-6" />
        ) : (
          <button
            type="button"
            className="button button-quiet px-1"
            aria-expanded={open}
            aria-label={`Show ${filename}`}
            onClick={() => setOpen(!open)}
          >
            <ChevronRight size={15} aria-hidden="true" className={`transition-transform ${open ? "rotate-90" : ""}`} />
          </button>
        )}
        <span className="shrink-0 font-mono text-xs font-medium">{filename}</span>
        <span className="min-w-0 flex-1 truncate text-sm text-soft" dir="auto" title={title}>
          {title === filename ? "" : title}
        </span>
        <span className="tabular shrink-0 text-xs text-faint">{bytes(artifact.bytes)}</span>
        <a className="button button-quiet px-2" href={href} download={filename} aria-label={`Download ${filename}`}>
          <Download size={15} aria-hidden="true" />
        </a>
      </div>
      {open && kind !== undefined && (
        <div className="border-t border-line bg-sunk">
          {kind === "image" ? (
            <img src={href} alt={title} loading="lazy" className="mx-auto max-h-[60vh] object-contain p-3" />
          ) : (
            <Text taskID={taskID} artifact={artifact} kind={kind} />
          )}
        </div>
      )}
    </li>
  );
};

/** The artifacts of agents. Those of checks are shown with the checks, and pictures with the preview. */
export const Artifacts = ({ taskID, artifacts }: { taskID: string; artifacts: readonly Artifact[] }) => {
  const handed = artifacts.filter(({ by }) => by.kind === "call");
  // The calls of one turn end in any order, so the report need not be the first.
  const small = handed.filter(({ bytes: size }) => size < openBelow);
  const open = small.find((artifact) => kindOf(artifact) === "markdown") ?? small[0];
  return handed.length === 0 ? null : (
    <section aria-label="Artifacts" className="flex flex-col gap-2">
      <h3 className="label">Artifacts</h3>
      <ul className="card divide-y divide-line overflow-hidden">
        {handed.map((artifact) => (
          <Kept key={artifact.artifactID} taskID={taskID} artifact={artifact} shown={artifact === open} />
        ))}
      </ul>
    </section>
  );
};
