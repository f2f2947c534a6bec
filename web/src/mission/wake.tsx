import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { MissionStatus, MissionSummary } from "../../../src/protocol/mission/status.ts";
import { ask, client, wordsOf } from "../api.ts";
import type { Attached } from "../component/form/attachment.ts";
import { addFiles, AttachButton, AttachedList, sentFiles } from "../component/form/attachments.tsx";
import { Labelled } from "../component/form/field.tsx";
import { commandsOf } from "../home/choices.ts";
import { isAddress, splitAddress } from "../place.ts";
import { budgetOf } from "./budget.tsx";

/** The form for a new Mission. */

const approvals = [
  ["plan", "The plan"],
  ["squad", "New squads"],
  ["landing", "What lands"],
] as const satisfies readonly (readonly [MissionStatus["approve"][number], string])[];

const landings = [
  ["commit", "Each phase lands separately"],
  ["manual", "On a branch that I merge"],
  ["auto", "On a branch, merged when done"],
] as const;

export const Wake = ({ project }: { project: string }) => {
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const [produce, setProduce] = useState(false);
  const [approve, setApprove] = useState<readonly MissionStatus["approve"][number][]>([]);
  const [checks, setChecks] = useState("");
  const [files, setFiles] = useState<Attached[]>([]);
  const [dollars, setDollars] = useState("");
  const [landing, setLanding] = useState<"commit" | "manual" | "auto">("commit");
  const [priority, setPriority] = useState<MissionSummary["priority"]>("normal");
  const commands = commandsOf({ checks });
  const wake = useMutation({
    mutationFn: () =>
      ask(
        client.mission.wake({
          query: isAddress(project) ? {} : { directory: project },
          body: {
            text,
            ...(isAddress(project) ? { repository: splitAddress(project) } : {}),
            ...(produce ? { allowSquadProduction: true } : {}),
            ...(landing === "commit" || isAddress(project) ? {} : { landing: "branch" as const, merge: landing }),
            ...(budgetOf({ maxCostUSD: dollars }) === null ? {} : { budget: budgetOf({ maxCostUSD: dollars }) }),
            ...(approve.length === 0 ? {} : { approve: [...approve] }),
            ...(commands.length === 0 ? {} : { checks: commands }),
            ...sentFiles(files),
            ...(priority === "normal" ? {} : { priority }),
          },
        }),
      ),
    onSuccess: ({ missionID }) =>
      void navigate({ to: "/ui/mission/$missionID", params: { missionID }, search: { project } }),
  });
  const submit = () => {
    if (text.trim() !== "" && !wake.isPending) wake.mutate();
  };
  return (
    <form
      aria-label="New Mission"
      className="card focus-within:border-edge"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void addFiles({ files, onFiles: setFiles }, event.dataTransfer.files);
      }}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <label htmlFor="goal" className="sr-only">
        The goal
      </label>
      <textarea
        id="goal"
        dir="auto"
        rows={3}
        value={text}
        placeholder="A goal that takes several Tasks. The Mission plans phases and assigns each to the squad that owns it."
        onChange={({ target }) => setText(target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) submit();
        }}
        className="field-sizing-content max-h-[40vh] min-h-24 w-full resize-none bg-transparent px-4 py-3 text-md outline-none"
      />
      {wake.error !== null && (
        <p role="alert" className="mx-4 mb-2 rounded-lg bg-fail-tint px-3 py-2 text-sm text-fail">
          {wordsOf(wake.error)}
        </p>
      )}
      {files.length > 0 && (
        <div className="px-4 pb-3">
          <AttachedList files={files} onFiles={setFiles} />
        </div>
      )}
      <div className="grid gap-4 border-t border-line px-4 py-3 sm:grid-cols-[2fr_1fr]">
        <Labelled
          label="Checks of the whole"
          hint="One command per line. All must pass on the project before the Mission is done. If empty, a session that did not plan judges the whole."
        >
          {(id) => (
            <textarea
              id={id}
              rows={1}
              spellCheck={false}
              className="field field-sizing-content resize-none font-mono text-sm"
              placeholder="npm test"
              value={checks}
              onChange={({ target }) => setChecks(target.value)}
            />
          )}
        </Labelled>
        <fieldset className="flex min-w-0 flex-col gap-1">
          <legend className="label mb-1">Ask me to approve</legend>
          {approvals.map(([of, words]) => (
            <label key={of} className="flex items-center gap-2 text-sm text-soft">
              <input
                type="checkbox"
                className="accent-accent"
                checked={approve.includes(of)}
                onChange={({ target }) =>
                  setApprove(target.checked ? [...approve, of] : approve.filter((one) => one !== of))
                }
              />
              {words}
            </label>
          ))}
        </fieldset>
      </div>
      <div className="flex flex-wrap items-center gap-3 border-t border-line px-4 py-2">
        <AttachButton words="Attach" files={files} onFiles={setFiles} />
        <label className="flex items-center gap-2 text-sm text-soft">
          <input
            type="checkbox"
            className="accent-accent"
            checked={produce}
            onChange={({ target }) => setProduce(target.checked)}
          />
          Create squads for phases that no squad owns
        </label>
        {!isAddress(project) && (
          <select
            aria-label="Where its Tasks land"
            className="field w-auto text-sm"
            value={landing}
            onChange={({ target }) => setLanding(landings.find(([value]) => value === target.value)?.[0] ?? "commit")}
          >
            {landings.map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        )}
        <label className="flex items-center gap-2 text-sm text-soft">
          Priority
          <select
            className="field w-auto text-sm"
            value={priority}
            onChange={({ target }) => setPriority(target.value as MissionSummary["priority"])}
          >
            <option value="critical">Critical</option>
            <option value="high">High</option>
            <option value="normal">Normal</option>
            <option value="low">Low</option>
          </select>
        </label>
        <label className="flex items-center gap-2 text-sm text-soft">
          Budget, USD
          <input
            type="number"
            min="0"
            step="any"
            inputMode="decimal"
            className="field w-28 text-sm"
            placeholder="no limit"
            value={dollars}
            onChange={({ target }) => setDollars(target.value)}
          />
        </label>
        <button type="submit" className="button button-primary ml-auto" disabled={wake.isPending || text.trim() === ""}>
          Start Mission
        </button>
      </div>
    </form>
  );
};
