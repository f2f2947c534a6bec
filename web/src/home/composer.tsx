import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useLocation, useNavigate } from "@tanstack/react-router";
import { FolderGit2, Paperclip, SlidersHorizontal, X } from "lucide-react";
import { type FormEvent, useEffect, useId, useRef, useState } from "react";
import type { TaskCreate } from "../../../src/protocol/task.ts";
import { ask, client, projects, squadsOf, wordsOf } from "../api.ts";
import { type Attached, readFiles } from "../parts/attach.ts";
import { keepDraft, readDraft, recentProjects } from "../settings.ts";
import { bytes } from "../words.ts";

/** Where a Task begins: a project, a request, and what there is to choose about it. */

const Labelled = ({
  label,
  hint,
  children,
}: {
  label: string;
  hint?: string;
  children: (id: string) => React.ReactNode;
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

const ProjectField = ({
  project,
  onProject,
  error,
}: {
  project: string | undefined;
  onProject: (directory: string) => void;
  error: string | undefined;
}) => {
  const [text, setText] = useState(project ?? "");
  const list = useId();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    // What somebody is typing stands above what the page finds out meanwhile.
    if (document.activeElement !== field.current) setText(project ?? "");
  }, [project]);
  const take = (value: string) => {
    const path = value.trim().replace(/(?<=.)\/+$/, "");
    if (path !== "" && path !== project) onProject(path);
  };
  const { data: found } = useQuery(projects);
  const known = [...new Set([...recentProjects(), ...(found ?? []).map(({ directory }) => directory)])];
  return (
    <div className="flex flex-col gap-1">
      <div className="flex items-center gap-2 px-4 pt-3">
        <FolderGit2 size={16} aria-hidden="true" className="shrink-0 text-faint" />
        <label htmlFor="project" className="sr-only">
          Project directory
        </label>
        <input
          id="project"
          ref={field}
          list={list}
          value={text}
          spellCheck={false}
          autoComplete="off"
          placeholder="/absolute/path/of/a/git/project on the service's machine"
          aria-invalid={error !== undefined}
          aria-describedby={error === undefined ? undefined : "project-error"}
          onChange={({ target, nativeEvent }) => {
            setText(target.value);
            // A path that was chosen from the list, not typed.
            if (!(nativeEvent instanceof InputEvent) || nativeEvent.inputType === "insertReplacementText")
              take(target.value);
          }}
          onBlur={({ target }) => take(target.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter") return;
            event.preventDefault();
            take(text);
            document.getElementById("request")?.focus();
          }}
          className="min-w-0 flex-1 rounded bg-transparent py-1 font-mono text-sm text-soft outline-none focus-visible:text-ink"
        />
        <datalist id={list}>
          {known.map((path) => (
            <option key={path} value={path} />
          ))}
        </datalist>
      </div>
      {error !== undefined && (
        <p id="project-error" role="alert" className="px-4 text-sm text-fail">
          {error}
        </p>
      )}
    </div>
  );
};

export const Composer = ({
  project,
  onProject,
  draft,
  onDraftTaken,
  projectError,
}: {
  project: string | undefined;
  onProject: (directory: string) => void;
  draft: string | undefined;
  onDraftTaken: () => void;
  projectError: string | undefined;
}) => {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [request, setRequest] = useState(readDraft);
  const [open, setOpen] = useState(false);
  const [pillar, setPillar] = useState<TaskCreate["productPillar"]>("code");
  const [priority, setPriority] = useState<NonNullable<TaskCreate["priority"]>>("normal");
  const [squad, setSquad] = useState("");
  const [model, setModel] = useState("");
  const [checks, setChecks] = useState("");
  const [files, setFiles] = useState<Attached[]>([]);
  const [wants, setWants] = useState<string | undefined>();
  const area = useRef<HTMLTextAreaElement>(null);
  const { data: catalog } = useQuery({
    ...squadsOf(project),
    enabled: project !== undefined && projectError === undefined,
  });
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

  const create = useMutation({
    mutationFn: async (directory: string) => {
      const commands = checks
        .split("\n")
        .map((line) => line.trim())
        .filter((line) => line !== "");
      return ask(
        client.task.create({
          query: { directory },
          body: {
            request,
            productPillar: pillar,
            priority,
            source: "web",
            ...(squad === "" ? {} : { promptProfile: squad }),
            ...(model.trim() === "" ? {} : { model: model.trim() }),
            ...(commands.length === 0 ? {} : { checks: commands }),
            ...(files.length === 0
              ? {}
              : { attachments: files.map(({ filename, mime, data }) => ({ filename, mime, data })) }),
          },
        }),
      );
    },
    onSuccess: ({ taskID }) => {
      setRequest("");
      setFiles([]);
      void queries.invalidateQueries({ queryKey: ["tasks"] });
      void navigate({ to: "/ui/task/$taskID", params: { taskID } });
    },
  });

  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    if (create.isPending) return;
    if (project === undefined) {
      setWants("Give the project first: the absolute path of a Git project on the service's machine.");
      document.getElementById("project")?.focus();
    } else if (request.trim() === "") {
      setWants("Write what should be done.");
      area.current?.focus();
    } else {
      setWants(undefined);
      create.mutate(project);
    }
  };
  const attach = async (chosen: FileList | null) => {
    const read = await readFiles(chosen);
    setFiles((now) => [...now, ...read].slice(0, 16));
  };
  const trouble = wants ?? (create.error === null ? undefined : wordsOf(create.error));

  return (
    <form
      aria-label="New Task"
      onSubmit={submit}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void attach(event.dataTransfer.files);
      }}
      className="card focus-within:border-edge"
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
        rows={3}
        placeholder="What should be done? Goal, constraints, how to tell that it is finished."
        onChange={({ target }) => setRequest(target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) submit();
        }}
        className="field-sizing-content max-h-[45vh] min-h-24 w-full resize-none bg-transparent px-4 py-2 text-md outline-none"
      />
      {files.length > 0 && (
        <ul aria-label="Attachments" className="flex flex-wrap gap-2 px-4 pb-2">
          {files.map((file, index) => (
            <li
              key={`${index}-${file.filename}`}
              className="flex max-w-full items-center gap-2 rounded-lg bg-hover py-1 pr-1 pl-2.5 text-sm"
            >
              <span className="truncate">{file.filename}</span>
              <span className="shrink-0 text-faint">{bytes(file.bytes)}</span>
              <button
                type="button"
                aria-label={`Remove ${file.filename}`}
                className="rounded p-1 hover:bg-line"
                onClick={() => setFiles(files.filter((each) => each !== file))}
              >
                <X size={14} aria-hidden="true" />
              </button>
            </li>
          ))}
        </ul>
      )}
      {open && (
        <div
          id="options"
          className="grid animate-rise gap-4 border-t border-line px-4 py-4 sm:grid-cols-2 lg:grid-cols-4"
        >
          <Labelled label="Squad">
            {(id) => (
              <select id={id} className="field" value={squad} onChange={({ target }) => setSquad(target.value)}>
                <option value="">The configured one</option>
                {(catalog?.squads ?? []).map(({ id: name, name: words }) => (
                  <option key={name} value={name}>
                    {words}
                  </option>
                ))}
              </select>
            )}
          </Labelled>
          <Labelled label="Kind of work">
            {(id) => (
              <select
                id={id}
                className="field"
                value={pillar}
                onChange={({ target }) => setPillar(target.value === "work" ? "work" : "code")}
              >
                <option value="code">Code</option>
                <option value="work">Documents and knowledge</option>
              </select>
            )}
          </Labelled>
          <Labelled label="Priority">
            {(id) => (
              <select
                id={id}
                className="field"
                value={priority}
                onChange={({ target }) => setPriority(target.value as NonNullable<TaskCreate["priority"]>)}
              >
                <option value="critical">Critical</option>
                <option value="high">High</option>
                <option value="normal">Normal</option>
                <option value="low">Low</option>
              </select>
            )}
          </Labelled>
          <Labelled label="Model">
            {(id) => (
              <input
                id={id}
                className="field"
                value={model}
                spellCheck={false}
                placeholder="provider/model"
                onChange={({ target }) => setModel(target.value)}
              />
            )}
          </Labelled>
          <div className="sm:col-span-2 lg:col-span-4">
            <Labelled
              label="Checks"
              hint="One command a line. All must pass on what lands; the first failure goes back to the agent. Empty: the project's own run and decide nothing."
            >
              {(id) => (
                <textarea
                  id={id}
                  rows={2}
                  spellCheck={false}
                  className="field field-sizing-content font-mono text-sm"
                  placeholder="npm test"
                  value={checks}
                  onChange={({ target }) => setChecks(target.value)}
                />
              )}
            </Labelled>
          </div>
        </div>
      )}
      {trouble !== undefined && (
        <p role="alert" className="mx-4 mb-2 rounded-lg bg-fail-tint px-3 py-2 text-sm text-fail">
          {trouble}
        </p>
      )}
      <div className="flex items-center gap-1 border-t border-line px-2.5 py-2.5">
        <button
          type="button"
          className="button button-quiet"
          aria-expanded={open}
          aria-controls="options"
          onClick={() => setOpen(!open)}
        >
          <SlidersHorizontal size={16} aria-hidden="true" />
          Options
          {checks.trim() !== "" && !open && <span className="text-faint">checks set</span>}
        </button>
        <label className="button button-quiet focus-within:outline-2 focus-within:outline-accent">
          <Paperclip size={16} aria-hidden="true" />
          <span className="max-sm:sr-only">Attach</span>
          <input
            type="file"
            multiple
            className="sr-only"
            onChange={({ target }) => {
              void attach(target.files);
              target.value = "";
            }}
          />
        </label>
        <span className="flex-1" />
        <kbd className="key hidden sm:inline-block">Ctrl Enter</kbd>
        <button type="submit" className="button button-primary ml-2" disabled={create.isPending}>
          {create.isPending ? "Starting" : "Start Task"}
        </button>
      </div>
    </form>
  );
};
