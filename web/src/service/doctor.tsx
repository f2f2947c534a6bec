import { useQuery } from "@tanstack/react-query";
import { CircleAlert, CircleCheck, CircleX } from "lucide-react";
import { health, models, wordsOf } from "../api.ts";
import { Failure, Waiting } from "../component/layout/empty.tsx";
import { Inline } from "../component/text/inline.tsx";
import { Fact, Screen } from "../component/layout/screen.tsx";
import { duration } from "../format.ts";
import { pausedWords } from "./breaker.ts";
import { Nodes } from "./nodes.tsx";

/**
 * Whether the running service is in order, as far as it knows; the command `sortie doctor` also examines the machine.
 */

type Finding = { name: string; state: "good" | "weak" | "bad"; words: string; remedy?: string };

const icons = {
  good: { icon: CircleCheck, tone: "text-done", word: "OK" },
  weak: { icon: CircleAlert, tone: "text-need", word: "degraded" },
  bad: { icon: CircleX, tone: "text-fail", word: "broken" },
} as const;

/** Values of the metrics by name, which includes the labels. */
const read = (text: string): Map<string, number> =>
  new Map(
    text
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => {
        const at = line.lastIndexOf(" ");
        return [line.slice(0, at), Number(line.slice(at + 1))];
      }),
  );

const fetchMetrics = async (signal: AbortSignal): Promise<{ values: Map<string, number>; skewMs: number }> => {
  const began = Date.now();
  const response = await fetch("/metrics", { signal });
  if (!response.ok) throw new Error(String(response.status));
  const values = read(await response.text());
  const theirs = Date.parse(response.headers.get("date") ?? "");
  // The header has whole seconds, so half of one is subtracted.
  return { values, skewMs: Number.isNaN(theirs) ? 0 : (began + Date.now()) / 2 - theirs - 500 };
};

const skewAllowed = 5_000;

export const Doctor = () => {
  const { data: state, error, refetch } = useQuery({ ...health, refetchInterval: 10_000, staleTime: 0 });
  const { data: known } = useQuery(models);
  const { data: metrics } = useQuery({
    queryKey: ["metrics"],
    queryFn: ({ signal }) => fetchMetrics(signal),
    refetchInterval: 5_000,
  });
  const findings: Finding[] = [];
  if (state !== undefined) {
    findings.push({
      name: "Service",
      state: state.healthy ? "good" : "bad",
      words: `Running version ${state.version}`,
    });
    findings.push({
      name: "Store",
      state: state.store.ok ? "good" : "bad",
      words: `${state.store.kind === "sqlite" ? "SQLite" : "PostgreSQL"} ${state.store.ok ? "writable" : "cannot be written"}`,
      ...(state.store.ok
        ? {}
        : { remedy: "See the service's log; `sortie doctor` checks the data folder and the disk." }),
    });
    findings.push({
      name: "Sandbox",
      state: state.sandbox.tier === 1 ? "good" : "weak",
      words: `${state.sandbox.name}, tier ${state.sandbox.tier} of 3${state.sandbox.network ? ", with network" : ", without network"}`,
      ...(state.sandbox.tier === 1
        ? {}
        : {
            remedy:
              "Install bubblewrap (Debian: `apt-get install bubblewrap`) and restart the service. Commands can then see only the project.",
          }),
    });
    const rules = state.model.ref.startsWith("builtin/");
    findings.push({
      name: "Model",
      state: rules ? "weak" : "good",
      words: rules ? "Built-in rules: exact instructions only" : `${state.model.ref} (${state.model.source})`,
      ...(rules
        ? {
            remedy:
              "Start the service with `ANTHROPIC_API_KEY` or another provider's key, or run `sortie model detect`.",
          }
        : {}),
    });
  }
  const servers = state?.mcpServers ?? [];
  if (servers.length > 0) {
    const missing = servers.flatMap(({ name, problem }) => (problem === null ? [] : [`${name}: ${problem}`]));
    findings.push({
      name: "MCP servers",
      state: missing.length === 0 ? "good" : "weak",
      words: missing.length === 0 ? servers.map(({ name }) => name).join(", ") : missing.join("; "),
      ...(missing.length === 0
        ? {}
        : { remedy: "Install the program on the service's machine. Until then, Tasks run without its tools." }),
    });
  }
  for (const { name, breaker } of known?.providers ?? []) {
    const words = pausedWords(breaker);
    if (words !== undefined) findings.push({ name, state: "weak", words });
  }
  if (metrics !== undefined) {
    const skewed = Math.abs(metrics.skewMs) > skewAllowed;
    findings.push({
      name: "Clock",
      state: skewed ? "weak" : "good",
      words: skewed
        ? `The service's clock is ${duration(Math.abs(metrics.skewMs))} ${metrics.skewMs > 0 ? "behind" : "ahead of"} this browser's`
        : "The service's clock and this browser's agree",
    });
  }
  const value = (name: string): number | undefined => metrics?.values.get(name);
  const figures: [string, string | undefined][] = [
    ["Tasks running", value("sortie_tasks_running")?.toString()],
    ["Tasks waiting", value("sortie_tasks_waiting")?.toString()],
    ["Free slots", value("sortie_slots_free")?.toString()],
    [
      "Memory",
      value("process_resident_memory_bytes") === undefined
        ? undefined
        : `${Math.round((value("process_resident_memory_bytes") ?? 0) / 1024 ** 2)} MB`,
    ],
    [
      "Uptime",
      value("process_start_time_seconds") === undefined
        ? undefined
        : duration(Date.now() - (value("process_start_time_seconds") ?? 0) * 1000),
    ],
    [
      "Event loop delay, p99",
      value("nodejs_eventloop_lag_p99_seconds") === undefined
        ? undefined
        : duration((value("nodejs_eventloop_lag_p99_seconds") ?? 0) * 1000),
    ],
  ];
  return (
    <Screen
      title="Doctor"
      about={
        <Inline text="Status of the running service. `sortie doctor` also checks the machine: Git, disk, port and leftover processes." />
      }
    >
      {error !== null && state === undefined && <Failure words={wordsOf(error)} onRetry={() => void refetch()} />}
      {state === undefined && error === null && <Waiting lines={5} />}
      {findings.length > 0 && (
        <ul className="card divide-y divide-line">
          {findings.map((finding) => {
            const { icon: Icon, tone, word } = icons[finding.state];
            return (
              <li key={finding.name} className="flex items-start gap-4 px-5 py-4">
                <Icon size={19} aria-hidden="true" className={`mt-0.5 shrink-0 ${tone}`} />
                <div className="min-w-0">
                  <p>
                    <span className="font-medium">{finding.name}</span>{" "}
                    <span className={`text-sm ${tone}`}>{word}</span>
                  </p>
                  <p className="text-soft">{finding.words}</p>
                  {finding.remedy !== undefined && (
                    <p className="mt-1 text-sm text-soft">
                      <Inline text={finding.remedy} />
                    </p>
                  )}
                </div>
              </li>
            );
          })}
        </ul>
      )}
      <Nodes />
      {metrics !== undefined && (
        <dl className="card tabular grid grid-cols-2 gap-5 p-5 sm:grid-cols-3 lg:grid-cols-6">
          {figures.map(([label, words]) =>
            words === undefined ? null : (
              <Fact key={label} label={label}>
                <span className="text-md font-semibold">{words}</span>
              </Fact>
            ),
          )}
        </dl>
      )}
    </Screen>
  );
};
