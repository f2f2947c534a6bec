import { post, statusOf } from "../../harness/double/hostile-text.ts";
import { dispatch, finish, missionOf, wake } from "../../harness/double/missions.ts";
import type { MockRequest, MockTurn } from "../../harness/double/mock-provider.ts";
import { teamOf } from "../../harness/double/squads.ts";
import { until, writeFiles } from "../../harness/project.ts";
import { type Load, projectOf } from "./load.ts";
import type { Call, Turn } from "./stage.ts";

/** What agents start, ask and dispatch: commands side by side, questions, and a Mission's tools. */

const command = (text: string, more: object = {}): Call => ({ tool: "shell", input: { command: text, ...more } });

const phases = Array.from({ length: 500 }, (_, n) => ({
  id: `p${n}`,
  title: "t".repeat(120),
  objective: "o".repeat(500),
  after: n < 2 ? [] : ["p0", "p1"],
}));

/** The ids of Tasks that a conversation names. */
const tasksIn = ({ body }: MockRequest): string[] => [
  ...new Set(JSON.stringify(body.messages).match(/task_[0-9A-Za-z]{8,}/g)),
];

const calls =
  (made: (task: string) => Call[]): Turn =>
  (request): MockTurn => ({ calls: made(tasksIn(request)[0] ?? "none") });

export const agentLoads: readonly Load[] = [
  {
    name: "commands: as many processes as there may be, ended, and four in the background without end",
    drives: ["commandProcesses", "backgroundCommands"],
    config: { limits: { commandProcesses: 1000 } },
    run: (stage) =>
      stage.task(
        projectOf(stage, { "a.txt": "a" }),
        [
          command("for n in $(seq 800); do sleep 60 & done; wait", { timeout: 2 }),
          command("for n in $(seq 2000); do (exec -a needle sleep 60) & done 2>&1; exit"),
          Array.from({ length: 5 }, () => command("yes needle", { background: true })),
          ["bg_1", "bg_2", "bg_3", "bg_4"].map((id) => ({ tool: "process", input: { action: "read", id } })),
          { tool: "process", input: { action: "wait", id: "bg_1", seconds: 2 } },
          { tool: "process", input: { action: "kill", id: "bg_1" } },
        ],
        { isolation: "directory" },
      ),
  },
  {
    name: "ask: the longest questions and answers, and one more than may be asked",
    short: true,
    drives: ["ask", "asks"],
    async run(stage) {
      const directory = projectOf(stage, { "a.txt": "a" }, (folder) =>
        writeFiles(`${folder}/.sortie/squads`, teamOf("team", { orchestrator: ["read, write, ask"] })),
      );
      const input = {
        question: "q".repeat(2000),
        options: Array.from({ length: 6 }, (_, n) => `${n}`.padEnd(200, "o")),
        default: "d".repeat(500),
      };
      const answered = new Set<string>();
      const answer = (taskID: string) =>
        until(
          async () => {
            const { status, pending } = await statusOf(stage.url, taskID);
            for (const { id } of pending)
              if (!answered.has(id)) {
                answered.add(id);
                await post(stage.url, `/task/${taskID}/pending/${id}`, directory, { answer: "a".repeat(2000) });
              }
            return status;
          },
          (status) => status === "inactive",
          60_000,
        );
      await stage.task(
        directory,
        Array.from({ length: 6 }, () => ({ tool: "ask", input })),
        { promptProfile: "team" },
        answer,
      );
      if (answered.size !== 5) throw new Error(`Expected five questions, got ${answered.size}`);
    },
  },
  {
    name: "a Mission: the largest plan, briefs and messages, and what its Tasks came to",
    short: true,
    drives: [
      "plan",
      "phase",
      "recommend",
      "dispatch",
      "task_status",
      "task_evidence",
      "task_message",
      "task_cancel",
      "produce_squad",
      "remember",
      "finish",
    ],
    async run(stage) {
      const directory = projectOf(stage, { "a.txt": "a" });
      const long = phases.slice(0, 50).map((phase) => ({
        ...phase,
        objective: "o".repeat(4000),
        acceptance: Array.from({ length: 20 }, () => "a".repeat(500)),
      }));
      const brief = "word ".repeat(20_000);
      const general = "g".repeat(500);
      const checks = Array.from({ length: 20 }, () => "true");
      const parts = ["outcome", "diff", "checks", "artifacts"];
      const roster = Array.from({ length: 5 }, (_, n) => ({ name: `agent-${n}`, duty: "d".repeat(300) }));
      const said = stage.script([
        { calls: [{ tool: "plan", input: { phases: long } }] },
        { calls: [{ tool: "plan", input: { phases } }] },
        { calls: [{ tool: "phase", input: { ...long[3], before: "p2" } }] },
        { calls: Array.from({ length: 20 }, () => ({ tool: "recommend", input: { phase: "x ".repeat(64) } })) },
        {
          calls: [
            dispatch("p0", brief, { title: "t".repeat(200), checks, general }),
            dispatch("p1", brief, { checks, general }),
          ],
        },
        calls((task) => [{ tool: "task_status", input: { tasks: Array.from({ length: 50 }, () => task) } }]),
        calls((task) => [{ tool: "task_message", input: { task, text: "m".repeat(50_000) } }]),
        calls((task) => parts.map((part) => ({ tool: "task_evidence", input: { task, part } }))),
        calls((task) => [{ tool: "task_cancel", input: { task, reason: "r".repeat(1000) } }]),
        {
          calls: [
            { tool: "remember", input: { text: "n".repeat(8 * 1024) } },
            {
              tool: "produce_squad",
              input: {
                phase: "p2",
                squad: "made",
                name: "n".repeat(80),
                summary: "s".repeat(300),
                roster,
                brief: "b".repeat(8000),
              },
            },
          ],
        },
        { calls: [finish("blocked", "s".repeat(8000))] },
      ]);
      const text = said + " ".padEnd(250 * 1024, "word ");
      const { missionID } = await wake(stage.url, directory, { text, allowSquadProduction: true });
      // It is woken by the end of each of its Tasks, and then says no more.
      await until(
        () => missionOf(stage.url, directory, missionID),
        ({ agentStatus, tasks }) =>
          agentStatus === "inactive" && tasks.length === 3 && tasks.every(({ status }) => status === "inactive"),
        60_000,
      );
      for (const part of ["messages", "archive"]) {
        const response = await fetch(
          `${stage.url}/mission/${missionID}/${part}?directory=${encodeURIComponent(directory)}`,
        );
        for await (const _ of response.body ?? []);
      }
    },
  },
];
