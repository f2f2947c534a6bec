import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { MessageType } from "../../../src/protocol/webhook.ts";
import { ask, client, wordsOf } from "../api.ts";
import { Labelled } from "../component/form/field.tsx";
import { copy } from "../component/layout/toast.tsx";
import { nameOf } from "../place.ts";

/** The form for a new webhook; its secret is shown only once. */

const types: readonly (readonly [MessageType, string])[] = [
  ["task.started", "a Task begins"],
  ["task.asked", "a Task asks"],
  ["task.reminded", "a Task has been waiting for an answer for a long time"],
  ["task.completed", "a Task is completed"],
  ["task.failed", "a Task fails"],
  ["task.cancelled", "a Task is cancelled"],
  ["mission.asked", "a Mission asks"],
  ["mission.reminded", "a Mission has been waiting for an answer for a long time"],
  ["mission.finished", "a Mission reports its outcome"],
  ["mission.paused", "a Mission uses up its budget"],
  ["mission.stalled", "a Mission stalls"],
  ["mission.waiting", "a Mission waits until a set time"],
  ["mission.aborted", "a Mission is aborted"],
];

export const Create = ({ project }: { project: string | undefined }) => {
  const queries = useQueryClient();
  const [url, setURL] = useState("");
  const [description, setDescription] = useState("");
  const [here, setHere] = useState(false);
  const [left, setLeft] = useState<ReadonlySet<MessageType>>(new Set());
  const create = useMutation({
    mutationFn: () =>
      ask(
        client.webhook.create({
          ...(here && project !== undefined ? { query: { directory: project } } : {}),
          body: {
            url: url.trim(),
            description: description.trim(),
            ...(left.size === 0 ? {} : { events: types.map(([type]) => type).filter((type) => !left.has(type)) }),
          },
        }),
      ),
    onSuccess: () => {
      setURL("");
      setDescription("");
      void queries.invalidateQueries({ queryKey: ["webhooks"] });
    },
  });
  return (
    <form
      aria-label="New webhook"
      className="card flex flex-col gap-4 p-5"
      onSubmit={(event) => {
        event.preventDefault();
        if (!create.isPending) create.mutate();
      }}
    >
      <div className="grid gap-4 sm:grid-cols-[2fr_1fr]">
        <Labelled label="Address">
          {(id) => (
            <input
              id={id}
              className="field"
              type="url"
              required
              placeholder="https://example.com/sortie"
              value={url}
              onChange={({ target }) => setURL(target.value)}
            />
          )}
        </Labelled>
        <Labelled label="Description">
          {(id) => (
            <input
              id={id}
              className="field"
              dir="auto"
              maxLength={200}
              value={description}
              onChange={({ target }) => setDescription(target.value)}
            />
          )}
        </Labelled>
      </div>
      <details className="group">
        <summary className="list-none rounded text-sm text-soft hover:text-ink">
          Notified when{" "}
          {left.size === 0 ? "any of these happens" : `${types.length - left.size} of ${types.length} things happen`}
          <span className="ml-1 text-accent group-open:hidden">Choose</span>
        </summary>
        <div className="mt-3 grid gap-2 sm:grid-cols-2 lg:grid-cols-3">
          {types.map(([type, words]) => (
            <label key={type} className="flex items-center gap-2 text-sm">
              <input
                type="checkbox"
                className="accent-accent"
                checked={!left.has(type)}
                onChange={() =>
                  setLeft((now) => {
                    const next = new Set(now);
                    if (!next.delete(type)) next.add(type);
                    return next;
                  })
                }
              />
              {words}
            </label>
          ))}
        </div>
      </details>
      {create.error !== null && (
        <p role="alert" className="text-fail">
          {wordsOf(create.error)}
        </p>
      )}
      {create.data !== undefined && (
        <div role="status" className="flex flex-wrap items-center gap-3 rounded-xl bg-done-tint px-4 py-3">
          <p className="min-w-0 flex-1">
            Its secret, shown only once: <code className="typed">{create.data.secret}</code>
          </p>
          <button type="button" className="button" onClick={() => void copy(create.data.secret, "The secret")}>
            Copy
          </button>
        </div>
      )}
      <div className="flex flex-wrap items-center gap-3">
        {project !== undefined && (
          <label className="flex items-center gap-2 text-sm text-soft">
            <input
              type="checkbox"
              className="accent-accent"
              checked={here}
              onChange={({ target }) => setHere(target.checked)}
            />
            Only for {nameOf(project)}
          </label>
        )}
        <button
          type="submit"
          className="button button-primary ml-auto"
          disabled={create.isPending || url.trim() === "" || left.size === types.length}
        >
          Add webhook
        </button>
      </div>
    </form>
  );
};
