import { useMutation } from "@tanstack/react-query";
import { CircleAlert, CircleCheck, CircleX, FlaskConical, LoaderCircle } from "lucide-react";
import type { ModelTrial } from "../../../src/protocol/service.ts";
import { ask, client, wordsOf } from "../api.ts";
import { cost, count, duration } from "../format.ts";

/** Tests a model with one real call: whether it answers, how fast, and whether it can use tools. */

const Result = ({ trial }: { trial: ModelTrial }) => {
  const { failure, firstMs, totalMs, tools, text, usage } = trial;
  if (failure !== null)
    return (
      <div className="flex items-start gap-2 text-fail">
        <CircleX size={16} aria-hidden="true" className="mt-0.5 shrink-0" />
        <div className="min-w-0" dir="auto">
          <p>{failure.message}</p>
          {failure.remedy !== null && <p className="text-sm text-soft">{failure.remedy}</p>}
        </div>
      </div>
    );
  const good = tools === "worked";
  const Icon = good ? CircleCheck : CircleAlert;
  return (
    <div className="flex items-start gap-2">
      <Icon size={16} aria-hidden="true" className={`mt-0.5 shrink-0 ${good ? "text-done" : "text-need"}`} />
      <div className="tabular min-w-0">
        <p className={good ? "text-done" : "text-need"}>
          {good
            ? "It responds, and tool calls work"
            : `Answers, but ${tools === "not called" ? "did not call the tool" : "called the tool incorrectly"}: agents need tool calls`}
        </p>
        <p className="text-sm text-soft">
          {firstMs !== null && `First word after ${duration(firstMs)}, `}
          {duration(totalMs)} in all · {count(usage.inputTokens, "token")} in, {usage.outputTokens.toLocaleString("en")}{" "}
          out · {usage.costUSD === null ? "cost unknown" : `cost ${cost({ costUSD: usage.costUSD, modelCalls: 1 })}`}
        </p>
        {!good && text !== "" && (
          <p className="line-clamp-3 text-sm text-soft" dir="auto">
            It said “{text}”
          </p>
        )}
      </div>
    </div>
  );
};

export const useTrial = () =>
  useMutation({ mutationFn: (model: string) => ask(client.service.testModel({ body: { model } })) });

export const TestButton = ({ trial, model }: { trial: ReturnType<typeof useTrial>; model: string }) => (
  <button
    type="button"
    className="button shrink-0"
    aria-label={model === "" ? "Test" : `Test ${model}`}
    title="Makes one real call, which the provider may charge for"
    disabled={trial.isPending || model === ""}
    onClick={() => trial.mutate(model)}
  >
    {trial.isPending ? (
      <LoaderCircle size={15} aria-hidden="true" className="animate-turn" />
    ) : (
      <FlaskConical size={15} aria-hidden="true" />
    )}
    {trial.isPending ? "Asking" : "Test"}
  </button>
);

export const TestResult = ({ trial }: { trial: ReturnType<typeof useTrial> }) => (
  <div role="status" className="empty:hidden">
    {trial.data !== undefined && !trial.isPending && <Result trial={trial.data} />}
    {trial.error !== null && !trial.isPending && <p className="text-fail">{wordsOf(trial.error)}</p>}
  </div>
);
