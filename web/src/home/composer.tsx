import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useLocation, useNavigate } from "@tanstack/react-router";
import { SlidersHorizontal } from "lucide-react";
import { type FormEvent, lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import { ask, client, placeOf, wordsOf } from "../api.ts";
import type { Attached } from "../component/form/attachment.ts";
import { useDraft } from "../component/form/draft.ts";
import { addFiles, AttachButton, AttachedList, sentFiles } from "../component/form/attachments.tsx";
import { Waiting } from "../component/layout/empty.tsx";
import { isAddress, splitAddress } from "../place.ts";
import { keepDraft, readDraft } from "../settings.ts";
import { InPlace } from "./in-place.tsx";
import { chosenOf, choicesFrom, toText } from "./choices.ts";
import { Decides } from "./decides.tsx";
import { CallState, useCall } from "../component/form/saved-call.tsx";
import { ProjectField } from "./project-field.tsx";

/** The form for a new Task: project, request and options. */

const loadOptions = () => import("./options.tsx").then(({ Options }) => ({ default: Options }));
const Options = lazy(loadOptions);
/** A request can be sent even if this part cannot be loaded. */
const loadSaved = () =>
  import("./saved.tsx").then(
    ({ Saved }) => ({ default: Saved }),
    () => ({ default: () => null }),
  );
const Saved = lazy(loadSaved);

export const Composer = ({
  project,
  onProject,
  draft,
  onDraftTaken,
  projectError,
  alone,
}: {
  project: string | undefined;
  onProject: (directory: string) => void;
  draft: string | undefined;
  onDraftTaken: () => void;
  projectError: string | undefined;
  /** There is no project yet, so the form is all that the screen shows. */
  alone: boolean;
}) => {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [request, setRequest] = useState(readDraft);
  const [open, setOpen] = useState(false);
  /** Once used, the form stays open, so that the button that the user presses next does not move away. */
  const [used, setUsed] = useState(false);
  const [kept, setKept] = useDraft("choices");
  const choices = useMemo(() => choicesFrom(kept), [kept]);
  const [files, setFiles] = useState<Attached[]>([]);
  const [wants, setWants] = useState<string | undefined>();
  const area = useRef<HTMLTextAreaElement>(null);
  const hash = useLocation({ select: (location) => location.hash });

  useEffect(() => keepDraft(request), [request]);
  useEffect(() => {
    if (draft === undefined) return;
    setRequest(draft);
    onDraftTaken();
    if (project === undefined) document.getElementById("project")?.focus();
    else area.current?.focus();
  }, [draft, onDraftTaken, project]);
  useEffect(() => {
    if (hash !== "new") return;
    area.current?.focus();
    void navigate({ to: "/", search: (now) => now, hash: "", replace: true });
  }, [hash, navigate]);

  const { data: place } = useQuery({
    ...placeOf(project ?? ""),
    enabled: project !== undefined && !isAddress(project) && projectError === undefined,
  });
  const because = place?.because ?? null;
  /** The project in which the user agreed that a Task changes the files themselves. */
  const [agreed, setAgreed] = useState<string | undefined>();
  const inPlace = because !== null && agreed === project;

  const create = useMutation({
    mutationFn: ({ where, request: text }: { where: string; request: string }) =>
      ask(
        client.task.create({
          query: isAddress(where) ? {} : { directory: where },
          body: {
            request: text,
            ...(isAddress(where) ? { repository: splitAddress(where) } : {}),
            source: "web",
            ...chosenOf(choices),
            ...sentFiles(files),
            ...(inPlace ? { isolation: "directory" } : {}),
          },
        }),
      ),
    onSuccess: ({ taskID }) => {
      setRequest("");
      setKept("");
      setFiles([]);
      void queries.invalidateQueries({ queryKey: ["tasks"] });
      void queries.invalidateQueries({ queryKey: ["projects"] });
      void navigate({ to: "/ui/task/$taskID", params: { taskID } });
    },
  });

  const { call, resolve, asItStands } = useCall(project, request, (text) => {
    if (project !== undefined) create.mutate({ where: project, request: text });
  });
  const busy = create.isPending || call?.state === "reading";

  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    if (busy) return;
    if (project === undefined) {
      setWants(
        "Choose a project first: the path of a Git project on the service's machine, or the URL of a repository.",
      );
      document.getElementById("project")?.focus();
    } else if (request.trim() === "") {
      setWants("Describe the Task first.");
      area.current?.focus();
    } else if (because !== null && !inPlace) {
      setWants("Make it a Git repository with a commit first, or choose to work in place.");
    } else {
      setWants(undefined);
      create.reset();
      resolve();
    }
  };
  const trouble = wants ?? (create.error === null ? undefined : wordsOf(create.error));

  const wide =
    used || open || (project === undefined && alone) || request !== "" || because !== null || trouble !== undefined;
  return (
    <form
      aria-label="New Task"
      onSubmit={submit}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void addFiles({ files, onFiles: setFiles }, event.dataTransfer.files);
      }}
      onFocus={() => {
        setUsed(true);
        // Loaded before they are needed, because a form that grows in two steps moves under the pointer.
        void loadOptions();
        void loadSaved();
      }}
      data-open={wide}
      className="group card focus-within:border-edge"
    >
      <ProjectField project={project} onProject={onProject} error={projectError} />
      <label htmlFor="request" className="sr-only">
        What should be done
      </label>
      <textarea
        id="request"
        ref={area}
        dir="auto"
        value={request}
        rows={1}
        placeholder="What should be done? Goal, constraints, how you will know it is done."
        onChange={({ target }) => setRequest(target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) submit();
        }}
        className="field-sizing-content max-h-[45vh] min-h-10 w-full resize-none group-data-[open=true]:min-h-24 bg-transparent px-4 py-2 text-md outline-none"
      />
      {request.startsWith("/") && (
        <Suspense>
          <Saved
            project={project === undefined || isAddress(project) || projectError !== undefined ? undefined : project}
            request={request}
            onChoose={(chosen) => {
              setRequest(chosen);
              area.current?.focus();
            }}
          />
        </Suspense>
      )}
      {files.length > 0 && (
        <div className="px-4 pb-2">
          <AttachedList files={files} onFiles={setFiles} />
        </div>
      )}
      {open && (
        <Suspense
          fallback={
            <div id="options" className="border-t border-line px-4 py-4">
              <Waiting label="Loading the options" />
            </div>
          }
        >
          <Options
            project={projectError === undefined ? project : undefined}
            place={place}
            choices={choices}
            onChoose={(change) => setKept(toText({ ...choices, ...change }))}
          />
        </Suspense>
      )}
      {wide && project !== undefined && projectError === undefined && because === null && (
        <Decides project={project} place={place} choices={choices} />
      )}
      {because !== null && (
        <InPlace
          because={because}
          agreed={inPlace}
          onAgree={(yes) => {
            setAgreed(yes ? project : undefined);
            setWants(undefined);
          }}
        />
      )}
      {trouble !== undefined && (
        <p role="alert" className="mx-4 mb-2 rounded-lg bg-fail-tint px-3 py-2 text-sm text-fail">
          {trouble}
        </p>
      )}
      {call !== undefined && <CallState call={call} onAsItStands={asItStands} />}
      <div className="hidden items-center gap-1 border-t border-line px-2 py-2 group-data-[open=true]:flex">
        <button
          type="button"
          className="button button-quiet"
          aria-expanded={open}
          aria-controls="options"
          onClick={() => setOpen(!open)}
        >
          <SlidersHorizontal size={16} aria-hidden="true" />
          Options
        </button>
        <AttachButton words="Attach" files={files} onFiles={setFiles} />
        <span className="flex-1" />
        <kbd className="key hidden sm:inline-block">Ctrl Enter</kbd>
        <button type="submit" className="button button-primary ml-2" disabled={busy}>
          {busy ? "Starting" : "Start Task"}
        </button>
      </div>
    </form>
  );
};
