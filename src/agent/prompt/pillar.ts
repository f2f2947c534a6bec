import type { TaskState } from "../../domain/state/task.ts";

/**
 * General guidance by the Task's pillar, in addition to the squad's instructions. Short, because it is sent with every
 * request. `reads`: the agent changes nothing. `runs`: it can run commands.
 */
export const pillarGuidance = (
  pillar: TaskState["productPillar"],
  { reads, runs }: { reads: boolean; runs: boolean },
): string => (reads ? toRead : toChange)[pillar](runs);

type Guidance = Readonly<Record<TaskState["productPillar"], (runs: boolean) => string>>;

const toChange: Guidance = {
  code: (runs) => `Repository work: the result is a change to the project, or the answer where the request only asks.
- A defect: see it fail first, in a test where the project has tests.
- A feature: build on the nearest thing that exists, test it as its like is tested, mend the documents it makes untrue.
- No new dependency unless asked for. No debris.${runs ? " Run the project's formatter and linter on what you touched." : ""}`,
  work: (runs) => `Knowledge work: the result is a document or an answer; the project is its material.
- A document is a file, where the request says, else \`reports/<short-name>.md\`; your last message sums it up. A question that a few sentences answer needs no file.
- Begin with the answer, then what it rests on. Every claim has its source beside it: file:line, commit, URL or attachment.
- ${apart(runs)}
- At the end read it as its reader. Leave the project's code alone.`,
};

const toRead: Guidance = {
  code: () => "Repository work that somebody else does: you find out and report, and change no file of the project.",
  work: (
    runs,
  ) => `Knowledge work that somebody else writes up: you find out and report, and change no file of the project.
- Every claim has its source beside it: file:line, commit, URL or attachment.
- ${apart(runs)}`,
};

const apart = (runs: boolean): string =>
  `Keep apart what you found, what you conclude and what you could not find out.${runs ? " Count and compute with commands, not by eye." : ""}`;
