import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Camera, LoaderCircle } from "lucide-react";
import { type FormEvent, useState } from "react";
import type { TaskStatus } from "../../../../src/protocol/task/status.ts";
import { ask, client, wordsOf } from "../../api.ts";
import { Labelled } from "../../component/form/field.tsx";
import { moment } from "../../format.ts";

/** Pictures of a page that the finished Task serves: the service starts its server, takes them, and stops it. */

const why = {
  unavailable: "A screenshot needs Chromium and a committed result.",
  busy: "Busy: a screenshot is being taken, or the service is at its limit.",
};

export const Preview = ({ task: { taskID, directory } }: { task: TaskStatus }) => {
  const queries = useQueryClient();
  const at = { path: { taskID }, query: { directory } };
  const key = ["preview", taskID];
  const { data } = useQuery({ queryKey: key, queryFn: ({ signal }) => ask(client.task.preview({ ...at, signal })) });
  const [url, setURL] = useState<string>();
  const capture = useMutation({
    mutationFn: (page: string) => ask(client.task.capture({ ...at, body: { url: page } })),
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: key });
      void queries.invalidateQueries({ queryKey: ["board", taskID] });
    },
  });
  if (data === undefined || (data.state === "none" && data.captures.length === 0)) return null;
  const page = url ?? data.url ?? "";
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!capture.isPending) capture.mutate(page);
  };
  return (
    <section aria-label="Preview" className="flex flex-col gap-2">
      <h3 className="label">Preview</h3>
      {data.state === "ready" || capture.isPending ? (
        <form className="flex flex-wrap items-end gap-2" onSubmit={submit}>
          <div className="min-w-56 flex-1">
            <Labelled label="URL on the Task's server">
              {(id) => (
                <input
                  id={id}
                  className="field font-mono text-xs"
                  value={page}
                  spellCheck={false}
                  onChange={({ target }) => setURL(target.value)}
                />
              )}
            </Labelled>
          </div>
          <button type="submit" className="button" disabled={capture.isPending || page === ""}>
            {capture.isPending ? (
              <LoaderCircle size={15} aria-hidden="true" className="animate-turn" />
            ) : (
              <Camera size={15} aria-hidden="true" />
            )}
            {capture.isPending ? "Starting its server" : "Take a screenshot"}
          </button>
        </form>
      ) : (
        data.state !== "none" && <p className="text-sm text-soft">{why[data.state]}</p>
      )}
      {capture.error !== null && (
        <p role="alert" className="text-sm text-fail">
          {wordsOf(capture.error)}
        </p>
      )}
      {data.captures.toReversed().map(({ artifactID, filename, at: when, by }) => (
        <figure key={artifactID} className="card overflow-hidden">
          <a href={`/task/${taskID}/artifacts/${artifactID}`} download={filename}>
            <img
              src={`/task/${taskID}/artifacts/${artifactID}`}
              alt={`${by.kind === "capture" ? by.url : filename}, ${moment(when)}`}
              loading="lazy"
              className="mx-auto max-h-[60vh] object-contain"
            />
          </a>
          <figcaption className="tabular border-t border-line px-3 py-1 text-xs text-faint">
            {by.kind === "capture" ? `${by.url}, ` : ""}
            {moment(when)}
          </figcaption>
        </figure>
      ))}
    </section>
  );
};
