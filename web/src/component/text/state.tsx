import {
  Ban,
  CircleCheck,
  CircleDashed,
  CircleX,
  Hand,
  LoaderCircle,
  type LucideIcon,
  Clock3,
  CircleAlert,
} from "lucide-react";
import type { CheckState, TaskSummary } from "../../../../src/protocol/task/status.ts";
import { type State, stateOf, stateWord } from "../../format.ts";

/** A state as icon, word and colour; nothing is conveyed by colour alone. */

const icons: Record<State, LucideIcon> = {
  need: Hand,
  run: LoaderCircle,
  queue: Clock3,
  done: CircleCheck,
  doubt: CircleAlert,
  fail: CircleX,
  stop: Ban,
};

export const tones: Record<State, { text: string; tint: string }> = {
  need: { text: "text-need", tint: "bg-need-tint" },
  run: { text: "text-run", tint: "bg-run-tint" },
  queue: { text: "text-soft", tint: "bg-hover" },
  done: { text: "text-done", tint: "bg-done-tint" },
  doubt: { text: "text-need", tint: "bg-need-tint" },
  fail: { text: "text-fail", tint: "bg-fail-tint" },
  stop: { text: "text-soft", tint: "bg-hover" },
};

export const StateIcon = ({ state, size = 16 }: { state: State; size?: number }) => {
  const Icon = icons[state];
  return (
    <Icon
      aria-hidden="true"
      size={size}
      className={`shrink-0 ${tones[state].text} ${state === "run" ? "animate-turn" : ""}`}
    />
  );
};

export const StateBadge = ({
  task,
}: {
  task: Pick<TaskSummary, "lifecycleStatus" | "phase" | "pending" | "verified">;
}) => <StateMark state={stateOf(task)} words={stateWord(task)} />;

export const StateMark = ({ state, words }: { state: State; words: string }) => (
  <span
    className={`inline-flex shrink-0 items-center gap-2 rounded-full py-1 pr-2 pl-1 text-sm font-medium whitespace-nowrap transition-colors ${tones[state].tint} ${tones[state].text}`}
  >
    <StateIcon state={state} size={15} />
    {words}
  </span>
);

type CheckWord = CheckState["state"];

const checks: Record<CheckWord, { icon: LucideIcon; tone: string; word: string }> = {
  passed: { icon: CircleCheck, tone: "text-done", word: "passed" },
  failed: { icon: CircleX, tone: "text-fail", word: "failed" },
  error: { icon: CircleAlert, tone: "text-need", word: "could not run" },
  running: { icon: LoaderCircle, tone: "text-run animate-turn", word: "running" },
  pending: { icon: CircleDashed, tone: "text-faint", word: "not run yet" },
};

export const checkWord = (state: CheckWord): string => checks[state].word;

/** `counts`: false for a check that decides nothing, even when it is red. */
export const CheckIcon = ({
  state,
  counts = true,
  size = 16,
}: {
  state: CheckWord;
  counts?: boolean;
  size?: number;
}) => {
  const { icon: Icon, tone } = checks[state === "failed" && !counts ? "error" : state];
  return <Icon aria-hidden="true" size={size} className={`shrink-0 ${tone}`} />;
};
