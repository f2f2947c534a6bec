import type { MissionBudget } from "../../protocol/mission/status.ts";
import { dataOf, type Service } from "../connection.ts";

/**
 * The caps of a Mission's budget as options. The service takes a whole budget, but a person usually changes one cap.
 */

export type Caps = {
  maxCost?: number | "none";
  maxTokens?: number | "none";
  maxSteps?: number | "none";
  maxMinutes?: number | "none";
};

const names = {
  maxCost: "maxCostUSD",
  maxTokens: "maxTokens",
  maxSteps: "maxSteps",
  maxMinutes: "maxMinutes",
} as const satisfies Record<keyof Caps, keyof MissionBudget>;

/**
 * The budget to send: the named caps, and the caps that an existing Mission has already. null: no cap is left.
 * undefined: no cap was named.
 */
export const budgetFor = async (
  service: Service,
  url: string,
  missionID: string | undefined,
  caps: Caps,
): Promise<MissionBudget | null | undefined> => {
  const given = Object.entries(names).flatMap(([option, name]) => {
    const most = caps[option as keyof Caps];
    return most === undefined ? [] : [{ name, most }];
  });
  if (given.length === 0) return undefined;
  const budget = { ...(await knownOf(service, url, missionID)) };
  for (const { name, most } of given)
    if (most === "none") delete budget[name];
    else budget[name] = most;
  return Object.keys(budget).length === 0 ? null : budget;
};

/** The Mission's present budget; null: it has no cap, or does not exist yet. */
const knownOf = async (service: Service, url: string, missionID: string | undefined): Promise<MissionBudget | null> => {
  if (missionID === undefined) return null;
  const found = await service.mission.status({ path: { missionID } });
  return found.response?.status === 404 ? null : dataOf(found, url).budget;
};
