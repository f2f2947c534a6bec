import { ask } from "../../tool/task/ask.ts";
import { note } from "../../tool/task/note.ts";
import type { Tool } from "../../tool/tool.ts";
import { dispatchTool } from "./dispatch.ts";
import type { MissionRun } from "../run.ts";
import { finishTool } from "./finish.ts";
import { lookTools } from "./read-tools.ts";
import { phaseTool, planTool } from "./plan.ts";
import { produceTool } from "./produce-squad.ts";
import { recommendTool, whyNoSquads } from "./choose-squad.ts";
import { verifyTool } from "./verify.ts";
import { evidenceTool } from "./task-evidence.ts";
import { answerTool, cancelTool, messageTool, statusTool } from "./watch-task.ts";

/** The tools of a Mission's agent: plan, dispatch and observe. It reads committed files only, and has no shell. */
export const createMissionTools = (run: MissionRun): Tool[] =>
  [
    planTool(run),
    phaseTool(run),
    recommendTool(run),
    dispatchTool(run),
    ...lookTools,
    statusTool(run),
    evidenceTool(run),
    messageTool(run),
    answerTool(run),
    cancelTool(run),
    verifyTool(run),
    produceTool(run),
    askTool,
    remember,
    finishTool(run),
  ] as Tool[];

/**
 * The tools that the model is told of with every request: without `produce_squad` where no squad may be made. A call of
 * it is refused with the reason all the same.
 */
export const offeredTools = (run: MissionRun, tools: readonly Tool[]): Tool[] =>
  tools.filter(({ name }) => name !== "produce_squad" || whyNoSquads(run) === undefined);

/** A Task's `ask` in the words of a Mission. */
const askTool: typeof ask = {
  ...ask,
  description:
    "Puts one question to the user, and waits for the answer: you do nothing else until then, your Tasks run on. " +
    "First dispatch all that needs no answer.",
};

/** A Task's `note` under another name. */
const remember: typeof note = {
  ...note,
  name: "remember",
  description:
    "Keeps your note word for word over all wakes: what you decided, what was tried. The user's words, plan and Tasks are kept without it.",
};
