import { z } from "zod";

/**
 * The fields of a phase, with the same limits for a Mission's agent, which writes it with its tools, and for a person,
 * who writes it over HTTP.
 */

export const mostPhases = 500;

export const phaseID = z
  .string()
  .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/)
  .max(40);

export const phaseTitle = z.string().min(1).max(120);
export const phaseKind = z.string().min(1).max(129);
export const phaseObjective = z.string().min(1).max(4000);
export const phaseAcceptance = z.array(z.string().min(1).max(500)).max(20);
/** Ids of other phases of the plan. `planProblem` reports unknown ones in words. */
export const phaseAfter = z.array(z.string()).max(100);

/** Described in the words that the agent reads in its tools. */
export const phaseFields = {
  id: phaseID.describe("Small letters, digits, hyphens"),
  title: phaseTitle,
  phase: phaseKind
    .optional()
    .describe("What kind of work it is, as squads own it: domain/phase or words. Default: the id"),
  objective: phaseObjective.describe("What is true when it is done"),
  acceptance: phaseAcceptance.optional().describe("What can be seen or run"),
  after: phaseAfter.optional().describe("Ids of phases whose result it starts from"),
};
