import type { Event, Kind, Observed } from "./observe.ts";

/** Controls: what was observed, with one thing in it that must not be. Each throws where there is nothing to spoil. */

type Spoil = (seen: Observed) => Observed;
type Mission = Observed["missions"][number];

const some = <T>(value: T | undefined, what: string): T => {
  if (value === undefined) throw new Error(`Expected ${what}, got none.`);
  return value;
};

const logsOf = ({ own, tasks }: Mission): Event[][] => [own, ...tasks.values()];

/** The newest event of the type is there once more, as another one. */
const again =
  (type: string, change: (data: Record<string, unknown>) => Record<string, unknown> = (data) => data): Spoil =>
  (seen) => {
    const log = some(
      seen.missions.flatMap(logsOf).find((one) => one.some((event) => event.type === type)),
      type,
    );
    const event = some(
      log.findLast((one) => one.type === type),
      type,
    );
    log.push({ ...event, id: event.id + 1_000_000, data: change({ ...event.data }) } as Event);
    return seen;
  };

const without =
  (type: string): Spoil =>
  (seen) => {
    const log = some(
      seen.missions.flatMap(logsOf).find((one) => one.some((event) => event.type === type)),
      type,
    );
    log.splice(
      log.findIndex((event) => event.type === type),
      1,
    );
    return seen;
  };

const onMission =
  (is: (mission: Mission) => boolean, spoil: (mission: Mission) => void): Spoil =>
  (seen) => {
    spoil(some(seen.missions.find(is), "such a Mission"));
    return seen;
  };

const any = () => true;

export const controls: Record<Kind, readonly Spoil[]> = {
  state: [
    onMission(any, ({ status }) => Object.assign(status, { state: "thinking" })),
    onMission(any, ({ status }) => Object.assign(status, { state: status.state === "done" ? "stalled" : "done" })),
    onMission(any, ({ status }) => Object.assign(status, { stateReason: "Because." })),
  ],
  asked: [
    again("ask.opened"),
    // The same is asked for anew, after it was answered.
    (seen) => again("ask.opened", (data) => ({ ...data, askID: "ask_other" }))(approvalLast(seen)),
    (seen) => ({
      ...seen,
      told: new Map([...seen.told].filter(([, { type }]) => type !== "task.asked" && type !== "mission.asked")),
    }),
    (seen) => ({
      ...seen,
      told: new Map([...seen.told, ...[...seen.told].map(([id, one]) => [`${id}-2`, one] as const)]),
    }),
  ],
  done: [
    again("task.dispatched"),
    again("task.ended"),
    again("task.created"),
    again("ask.answered"),
    again("tool.started"),
    without("task.ended"),
    onMission(
      ({ said }) => said.length > 0,
      (mission) => Object.assign(mission, { said: [...mission.said, "Never heard."] }),
    ),
    onMission(any, (mission) => Object.assign(mission, { written: [...mission.written, "Never heard."] })),
    onMission(
      ({ answered }) => answered.length > 0,
      (mission) => Object.assign(mission, { answered: [...mission.answered, "ask_never"] }),
    ),
  ],
  budget: [
    onMission(
      ({ status }) => status.budget?.maxSteps !== undefined,
      ({ status }) => Object.assign(status.budgetSpent, { maxSteps: (status.budget?.maxSteps ?? 0) + 1 }),
    ),
    onMission(
      ({ status }) => status.tasks.every((task) => task.status !== "running"),
      ({ status }) => Object.assign(status.budgetReserved, { maxTokens: 1 }),
    ),
  ],
  commits: [
    again("landing.finished"),
    without("landing.finished"),
    // It is there twice, under two ids: as after a landing that was done again.
    onMission(
      ({ commits }) => commits.length > 0,
      (mission) => {
        const commit = some(mission.commits[0], "a commit");
        Object.assign(mission, { commits: [...mission.commits, { ...commit, commit: "0".repeat(40) }] });
      },
    ),
    onMission(
      ({ commits }) => commits.some(({ body }) => /^Mission: /m.test(body)),
      (mission) => {
        const commits = mission.commits.map((one) => ({
          ...one,
          body: one.body.replace(/^Mission: .*$/m, "Mission: other"),
        }));
        Object.assign(mission, { commits });
      },
    ),
    onMission(any, (mission) =>
      Object.assign(mission, {
        commits: [...mission.commits, { commit: "1".repeat(40), parents: [], body: "Strange" }],
      }),
    ),
  ],
  processes: [(seen) => ({ ...seen, processes: [1] })],
  reminders: [
    (seen) => ({ ...seen, told: new Map([...seen.told].filter(([, { type }]) => !type.endsWith(".reminded"))) }),
    // Reminders too many, also where some were not due any more when it was answered; and one too few, of what still
    // waits.
    (seen) => Array.from({ length: 5 }, () => again("ask.reminded")).reduce((now, spoil) => spoil(now), seen),
    (seen) => {
      const log = some(
        seen.missions
          .flatMap(logsOf)
          .find((one) => one.some((event) => event.type === "ask.opened" && event.data["passesAt"] === undefined)),
        "an ask",
      );
      const asked = some(
        log.find((event) => event.type === "ask.opened" && event.data["passesAt"] === undefined),
        "an ask",
      );
      const at = new Date(Date.parse(seen.at) - 2 * 3_600_000).toISOString();
      log.push({
        ...asked,
        id: asked.id + 1,
        at,
        data: { ...asked.data, askID: "ask_open", expiresAt: null },
      } as Event);
      return seen;
    },
  ],
  stalled: [
    onMission(
      ({ own }) => !own.slice(-3).some(({ type }) => type === "mission.stalled"),
      ({ status }) => Object.assign(status, { state: "stalled" }),
    ),
    (seen) => ({ ...seen, told: new Map([...seen.told].filter(([, { type }]) => type !== "mission.stalled")) }),
    again("mission.stalled"),
  ],
};

/** With the newest answered approval as the newest ask of its log. */
const approvalLast = (seen: Observed): Observed => {
  const log = some(
    seen.missions
      .flatMap(logsOf)
      .find((one) =>
        one.some(
          ({ type, data }) => type === "ask.answered" && data["decision"] === "allow" && data["by"] === "caller",
        ),
      ),
    "an approval",
  );
  const allowed = some(
    log.findLast(
      ({ type, data }) => type === "ask.answered" && data["decision"] === "allow" && data["by"] === "caller",
    ),
    "an approval",
  );
  const at = log.findIndex(({ type, data }) => type === "ask.opened" && data["askID"] === allowed.data["askID"]);
  log.splice(at + 1, log.length, ...log.slice(at + 1).filter(({ type }) => type !== "ask.opened"));
  return {
    ...seen,
    missions: seen.missions.toSorted(
      (one, other) => Number(logsOf(other).includes(log)) - Number(logsOf(one).includes(log)),
    ),
  };
};
