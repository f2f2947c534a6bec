/** Each agent has the same colour everywhere. The colour only helps: the agent's name is always beside it. */

const dots = ["bg-agent-1", "bg-agent-2", "bg-agent-3", "bg-agent-4", "bg-agent-5", "bg-agent-6"] as const;

const known = new Map<string, (typeof dots)[number]>([
  ["orchestrator", "bg-agent-1"],
  ["builder", "bg-agent-2"],
  ["reviewer", "bg-agent-3"],
  ["explorer", "bg-agent-4"],
]);

/** The class for an agent's background colour. */
export const agentTone = (agent: string): (typeof dots)[number] => {
  const kept = known.get(agent);
  if (kept !== undefined) return kept;
  let sum = 0;
  for (const character of agent) sum = (sum * 31 + (character.codePointAt(0) ?? 0)) % 9973;
  return dots[sum % dots.length] ?? dots[0];
};

export const AgentDot = ({ agent }: { agent: string }) => (
  <span aria-hidden="true" className={`size-2 shrink-0 rounded-full ${agentTone(agent)}`} />
);
