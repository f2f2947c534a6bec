import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Columns3, Rows3, Search, SlidersHorizontal } from "lucide-react";
import { useEffect, useState } from "react";
import { squadsOf } from "../api.ts";
import { useDebounced } from "../component/text/time.tsx";
import type { HomeSearch } from "../search.ts";
import { count } from "../format.ts";

const Choice = <T extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: T | undefined;
  options: readonly (readonly [T, string])[];
  onChange: (value: T | undefined) => void;
}) => (
  <select
    aria-label={label}
    className="field w-full text-sm sm:w-auto sm:max-w-40"
    value={value ?? ""}
    onChange={({ target }) => onChange(options.find(([option]) => option === target.value)?.[0])}
  >
    <option value="">{label}</option>
    {options.map(([option, words]) => (
      <option key={option} value={option}>
        {words}
      </option>
    ))}
  </select>
);

export const FilterBar = ({
  search,
  total,
  more,
}: {
  search: HomeSearch & { project?: string };
  total: number | undefined;
  more: boolean;
}) => {
  const navigate = useNavigate({ from: "/" });
  const { data: catalog } = useQuery(squadsOf(search.project));
  const [text, setText] = useState(search.q ?? "");
  const late = useDebounced(text, 250);
  const set = (change: Partial<Record<keyof HomeSearch, unknown>>) =>
    void navigate({
      search: (now) =>
        Object.fromEntries(
          Object.entries({ ...now, ...change }).filter(([, value]) => value !== undefined && value !== ""),
        ),
      replace: true,
    });
  useEffect(() => setText(search.q ?? ""), [search.q]);
  useEffect(() => {
    if (late !== (search.q ?? "")) set({ q: late });
    // Only typing changes the URL from here; when the URL changes, the effect above sets the field.
  }, [late]);
  const board = search.view === "board";
  const chosen = [search.state, search.squad, search.priority, search.archived].filter((value) => value !== undefined);
  const [asked, setAsked] = useState(false);
  const open = asked || chosen.length > 0;
  return (
    <div className="grid grid-cols-2 items-center gap-2 sm:flex sm:flex-wrap">
      <h1 className="mr-auto flex items-baseline gap-2 text-md font-semibold">
        Tasks
        {total !== undefined && (
          <span role="status" className="text-sm font-normal text-faint">
            {count(total, "Task").replace(/ Tasks?$/, "")}
            {more ? "+" : ""}
            <span className="sr-only"> shown</span>
          </span>
        )}
      </h1>
      <div className="relative row-start-2 sm:w-52">
        <Search
          size={15}
          aria-hidden="true"
          className="pointer-events-none absolute inset-y-0 left-2 my-auto text-faint"
        />
        <input
          id="filter"
          type="search"
          aria-label="Search the Tasks"
          placeholder="Search"
          className="field pl-8 text-sm"
          value={text}
          onChange={({ target }) => setText(target.value)}
        />
      </div>
      <button
        type="button"
        className="button row-start-2 text-sm"
        aria-expanded={open}
        disabled={chosen.length > 0}
        onClick={() => setAsked(!asked)}
      >
        <SlidersHorizontal size={15} aria-hidden="true" />
        Filters
      </button>
      {open && (
        <>
          <Choice
            label="Any state"
            value={search.state}
            options={[
              ["active", "Active"],
              ["completed", "Completed"],
              ["failed", "Failed"],
              ["cancelled", "Cancelled"],
            ]}
            onChange={(state) => set({ state })}
          />
          <Choice
            label="Any squad"
            value={search.squad}
            options={(catalog?.squads ?? []).map(({ id, name }) => [id, name] as const)}
            onChange={(squad) => set({ squad })}
          />
          <Choice
            label="Any priority"
            value={search.priority}
            options={[
              ["critical", "Critical"],
              ["high", "High"],
              ["normal", "Normal"],
              ["low", "Low"],
            ]}
            onChange={(priority) => set({ priority })}
          />
          <label className="field flex w-full items-center sm:w-auto gap-2 text-sm">
            <input
              type="checkbox"
              className="accent-accent"
              checked={search.archived === true}
              onChange={({ target }) => set({ archived: target.checked ? true : undefined })}
            />
            Archived
          </label>
        </>
      )}
      <div
        role="group"
        aria-label="View"
        className="col-start-2 row-start-1 flex justify-self-end rounded-lg border border-line bg-card p-1"
      >
        {(
          [
            ["List", Rows3, false],
            ["Board", Columns3, true],
          ] as const
        ).map(([words, Icon, value]) => (
          <button
            key={words}
            type="button"
            aria-pressed={board === value}
            onClick={() => set({ view: value ? "board" : undefined })}
            className={`flex items-center gap-2 rounded-md px-2 py-1 text-sm ${board === value ? "bg-hover font-medium text-ink" : "text-soft"}`}
          >
            <Icon size={15} aria-hidden="true" />
            {words}
          </button>
        ))}
      </div>
    </div>
  );
};
