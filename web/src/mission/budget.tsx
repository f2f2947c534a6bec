import { useState } from "react";
import type { MissionStatus } from "../../../src/protocol/mission/status.ts";
import { ask, client } from "../api.ts";
import { Amount } from "../component/form/field.tsx";
import { FormDialog } from "../component/layout/form-dialog.tsx";
import { say } from "../component/layout/toast.tsx";
import { tokens } from "../format.ts";

/** The limits of a Mission and all its Tasks: how much of each is used, and the dialog that sets or raises them. */

const limits = [
  ["maxCostUSD", "Cost (USD)"],
  ["maxTokens", "Tokens"],
  ["maxSteps", "Model calls"],
  ["maxMinutes", "Working minutes"],
] as const;

type Budget = { maxCostUSD?: number; maxTokens?: number; maxSteps?: number; maxMinutes?: number };

type Amounts = Record<(typeof limits)[number][0], string>;

const amountsOf = (budget: MissionStatus["budget"]): Amounts => ({
  maxCostUSD: String(budget?.maxCostUSD ?? ""),
  maxTokens: String(budget?.maxTokens ?? ""),
  maxSteps: String(budget?.maxSteps ?? ""),
  maxMinutes: String(budget?.maxMinutes ?? ""),
});

export const budgetOf = (amounts: Partial<Amounts>): Budget | null => {
  const given = limits.flatMap(([name]) => {
    const amount = Number(amounts[name] ?? "");
    return amount > 0 ? [[name, amount] as const] : [];
  });
  return given.length === 0 ? null : Object.fromEntries(given);
};

/** For example "$1.20 of $5.00, 12 of 60 min"; null: there is no limit. */
export const spentWords = ({ budget, budgetSpent }: Pick<MissionStatus, "budget" | "budgetSpent">): string | null => {
  const { maxCostUSD, maxTokens, maxSteps, maxMinutes } = budget ?? {};
  const words = [
    ...(maxCostUSD === undefined
      ? []
      : [
          `${budgetSpent.maxCostUSD === null ? "an unknown part" : `$${budgetSpent.maxCostUSD.toFixed(2)}`} of $${maxCostUSD.toFixed(2)}`,
        ]),
    ...(maxTokens === undefined ? [] : [`${tokens(budgetSpent.maxTokens)} of ${tokens(maxTokens)} tokens`]),
    ...(maxSteps === undefined ? [] : [`${budgetSpent.maxSteps} of ${maxSteps} calls`]),
    ...(maxMinutes === undefined ? [] : [`${Math.round(budgetSpent.maxMinutes)} of ${maxMinutes} min`]),
  ];
  return words.length === 0 ? null : words.join(", ");
};

export const BudgetDialog = ({
  mission,
  open,
  onClose,
  onDone,
}: {
  mission: MissionStatus;
  open: boolean;
  onClose: () => void;
  onDone: () => void;
}) => {
  const { missionID, directory, budget } = mission;
  const [amounts, setAmounts] = useState(amountsOf(budget));
  const spent = spentWords(mission);
  return (
    <FormDialog
      title="Budget of this Mission"
      keep="Keep it"
      action="Set budget"
      open={open}
      onClose={onClose}
      onSubmit={async () => {
        await ask(client.mission.wake({ query: { directory }, body: { missionID, budget: budgetOf(amounts) } }));
        say("Budget set; the Mission is woken");
        onDone();
      }}
    >
      <p className="text-soft">
        Limits its agent and all its Tasks together.{spent !== null && ` Used so far: ${spent}.`}
      </p>
      <div className="grid gap-3 sm:grid-cols-2">
        {limits.map(([name, label]) => (
          <Amount
            key={name}
            label={label}
            value={amounts[name]}
            onChange={(value) => setAmounts({ ...amounts, [name]: value })}
          />
        ))}
      </div>
    </FormDialog>
  );
};
