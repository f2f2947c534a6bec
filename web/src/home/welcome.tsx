import { useQuery } from "@tanstack/react-query";
import { ArrowUpRight, Sparkles, Terminal } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { health } from "../api.ts";
import { copy } from "../component/layout/toast.tsx";
import { Inline } from "../component/text/inline.tsx";
import { nameOf } from "../place.ts";

const Connect = lazy(() => import("../model/connect.tsx").then(({ Connect }) => ({ default: Connect })));

/** The first screen of a new user: what works already, requests to try, and the next steps. */

const forRules = [
  ["run the tests and report", "Runs the project's tests and reports the results."],
  ["list TODOs into docs/todos.md", "Finds TODO, FIXME and HACK in comments and lists them with file and line."],
  ['replace "colour" with "color" in **/*.md', "Replaces text in all matching files, in one commit."],
  ["dead links", "Finds broken links in Markdown files."],
] as const;

const forModels = [
  ["Find out why the tests fail and fix it.", "Reads, runs and edits the project until its checks pass."],
  [
    "Explain how this project is built and write it down in docs/building.md.",
    "Reads the project and writes a page about it.",
  ],
  ["Add a test for the least tested part of the code.", "Finds it, writes the test and runs it."],
] as const;

const curl = (directory: string) =>
  `curl -s ${window.location.origin}/task -H 'content-type: application/json' \\\n  -H 'x-service-directory: ${directory}' \\\n  -d '{ "request": "run the tests and report", "productPillar": "code" }'`;

export const Welcome = ({ project, onTry }: { project: string | undefined; onTry: (request: string) => void }) => {
  const { data } = useQuery(health);
  const [offered, setOffered] = useState(false);
  if (data === undefined) return null;
  const rules = data.model.ref.startsWith("builtin/");
  // Once shown, the form stays, so that it can report the outcome.
  if (rules && !offered) setOffered(true);
  return (
    <section aria-label="First steps" className="flex flex-col gap-8">
      {(rules || offered) && (
        <div className="card flex flex-col gap-3 p-5">
          <h1 className="flex items-center gap-2 text-lg font-semibold tracking-tight">
            <Sparkles size={18} aria-hidden="true" className="text-accent" />
            Connect a model
          </h1>
          <p className="text-soft">
            For requests in your own words. A model server on this machine needs no key:{" "}
            <code className="typed">sortie model detect</code> finds it.
          </p>
          <Suspense fallback={<div className="h-24" />}>
            <Connect />
          </Suspense>
        </div>
      )}
      <div className="flex flex-col gap-3">
        {rules || offered ? (
          <h2 className="text-md font-semibold">{rules ? "Works without a model" : "Try one of these"}</h2>
        ) : (
          <h1 className="text-lg font-semibold tracking-tight">Try one of these</h1>
        )}
        <p className="max-w-2xl text-soft">
          {rules ? (
            <Inline text="Built-in rules carry out requests that spell out the change, with the same tools and checks as a model. They refuse other requests before changing anything. Choose an example to try it. All forms: /ui/manual/rules" />
          ) : (
            `No Tasks in ${project === undefined ? "this project" : nameOf(project)} yet. The model is ${data.model.ref}. Describe a Task, or choose an example.`
          )}
        </p>
        <ul className="mt-1 grid gap-3 sm:grid-cols-2">
          {(rules ? forRules : forModels).map(([request, words]) => (
            <li key={request}>
              <button
                type="button"
                onClick={() => onTry(request)}
                className="card group flex h-full w-full flex-col gap-1 p-4 text-start transition-[border-color] hover:border-edge"
              >
                <span className="flex items-start gap-2 font-medium">
                  <span className="min-w-0 flex-1">{request}</span>
                  <ArrowUpRight
                    size={16}
                    aria-hidden="true"
                    className="mt-0.5 shrink-0 text-faint transition-transform group-hover:translate-x-0.5 group-hover:-translate-y-0.5"
                  />
                </span>
                <span className="text-sm text-soft">{words}</span>
              </button>
            </li>
          ))}
        </ul>
      </div>
      <div className="flex min-w-0 flex-col gap-2">
        <h2 className="flex items-center gap-2 font-semibold">
          <Terminal size={16} aria-hidden="true" className="text-accent" />
          The same from a shell
        </h2>
        <p className="text-soft">Everything on this page is also available over HTTP.</p>
        <pre className="code overflow-x-auto rounded-xl bg-sunk p-3">{curl(project ?? "/absolute/path")}</pre>
        <p>
          <button
            type="button"
            className="button"
            onClick={() => void copy(curl(project ?? "/absolute/path"), "The command")}
          >
            Copy
          </button>
        </p>
      </div>
    </section>
  );
};

export const NothingFound = ({ onClear }: { onClear: () => void }) => (
  <div className="flex flex-col items-center gap-3 py-14 text-center">
    <p className="text-soft">No Task matches these filters.</p>
    <button type="button" className="button" onClick={onClear}>
      Clear the filters
    </button>
  </div>
);
