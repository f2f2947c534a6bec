import { z } from "zod";

/** A phase as it is written: by a Mission's agent with its tools, by a person over HTTP. One set of bounds holds for both. */

export const mostPhases = 500;

export const phaseID = z
  .string()
  .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/)
  .max(40);

export const phaseTitle = z.string().min(1).max(120);
export const phaseKind = z.string().min(1).max(129);
export const phaseObjective = z.string().min(1).max(4000);
export const phaseAcceptance = z.array(z.string().min(1).max(500)).max(20);
/** Ids that the plan must have: said in words where it has not. */
export const phaseAfter = z.array(z.string()).max(100);

/** In the words that the agent reads with its tools. */
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
