import { useQuery } from "@tanstack/react-query";
import { ChevronsUpDown, FolderGit2 } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { projects } from "../api.ts";
import { recentProjects } from "../settings.ts";
import { nameOf, projectOf } from "../place.ts";

/** The field for the project: typed by the user, or picked from the known ones. */

export const ProjectField = ({
  project,
  onProject,
  error,
}: {
  project: string | undefined;
  onProject: (directory: string) => void;
  error: string | undefined;
}) => {
  const [text, setText] = useState(project ?? "");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    // Must not overwrite what the user is typing.
    if (document.activeElement !== field.current) setText(project ?? "");
  }, [project]);
  const take = (value: string) => {
    const path = value.trim().replace(/(?<=.)\/+$/, "");
    if (path !== "" && path !== project) onProject(path);
  };
  const { data: found } = useQuery(projects);
  const known = [...new Set([...recentProjects(), ...(found ?? []).map(projectOf)])];
  const offered = project === undefined && text.trim() === "" ? known.slice(0, 3) : [];
  return (
    <div className="flex flex-col gap-1">
      <div className="flex items-center gap-2 px-4 pt-3">
        <FolderGit2 size={16} aria-hidden="true" className="shrink-0 text-faint" />
        <label htmlFor="project" className="sr-only">
          Project directory or repository URL
        </label>
        <input
          id="project"
          ref={field}
          value={text}
          spellCheck={false}
          autoComplete="off"
          placeholder="/path/to/project on the service's machine, or https://host/repository.git#branch"
          aria-invalid={error !== undefined}
          aria-describedby={error === undefined ? undefined : "project-error"}
          onChange={({ target }) => setText(target.value)}
          onBlur={({ target }) => take(target.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter") return;
            event.preventDefault();
            take(text);
            document.getElementById("request")?.focus();
          }}
          className="min-w-0 flex-1 rounded bg-transparent py-1 font-mono text-sm text-soft outline-none focus-visible:text-ink"
        />
        {known.length > 0 && (
          <span className="relative shrink-0 rounded-md text-faint focus-within:outline-2 focus-within:outline-accent hover:text-ink">
            <ChevronsUpDown size={16} aria-hidden="true" />
            <select
              aria-label="Known projects"
              title="Known projects"
              className="absolute inset-0 w-full cursor-pointer opacity-0"
              value={project !== undefined && known.includes(project) ? project : ""}
              onChange={({ target }) => take(target.value)}
            >
              <option value="" disabled>
                Choose a project
              </option>
              {known.map((path) => (
                <option key={path} value={path}>
                  {nameOf(path)} · {path}
                </option>
              ))}
            </select>
          </span>
        )}
      </div>
      {offered.length > 0 && (
        <div className="flex flex-wrap items-center gap-2 px-4 pb-1">
          {offered.map((path) => (
            <button
              key={path}
              type="button"
              className="inline-flex min-h-8 max-w-full items-center gap-2 rounded-full bg-accent-tint px-3 py-1 text-sm text-accent hover:bg-hover"
              title={path}
              onClick={() => onProject(path)}
            >
              <span className="shrink-0 font-medium">Use {nameOf(path)}</span>
              <span className="truncate text-xs text-soft" dir="ltr">
                {found?.find(({ directory, tasks }) => directory === path && tasks === 0) === undefined
                  ? path
                  : `the service's working directory, ${path}`}
              </span>
            </button>
          ))}
        </div>
      )}
      {error !== undefined && (
        <p id="project-error" role="alert" className="px-4 pb-1 text-sm text-fail">
          {error}
        </p>
      )}
    </div>
  );
};
