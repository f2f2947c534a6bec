/** Fields of requests by the names that the command line has for them. */

const flags: Record<string, string> = {
  request: "<request>",
  text: "<text>",
  promptProfile: "--squad",
  productPillar: "--pillar",
  model: "--model",
  effort: "--effort",
  priority: "--priority",
  title: "--title",
  landing: "--landing",
  isolation: "--in-place",
  checks: "--check",
  attachments: "--attach",
  outputSchema: "--output-schema",
  callbackURL: "--callback",
  "limits.askSeconds": "--ask-seconds",
  "budget.maxMinutes": "--max-minutes",
  "budget.maxCostUSD": "--max-cost",
  "budget.maxTokens": "--max-tokens",
  "budget.maxSteps": "--max-steps",
  "repository.url": "--repo",
  "repository.ref": "--ref",
  repository: "--repo",
  directory: "--directory",
  missionID: "--id",
  allowSquadProduction: "--produce",
  reason: "--reason",
  url: "<url>",
  events: "--event",
  description: "--description",
};

/** An issue's place, such as `body.budget.maxCostUSD`, as a flag; a place that has none stays. */
export const flagOf = (path: string): string => {
  const field = path.replace(/^(?:body|query|path)\./, "");
  const [first = "", second = ""] = field.split(/[.[]/);
  return flags[`${first}.${second}`] ?? flags[first] ?? field;
};

/** A sentence of the service with flags for the fields that no command line has. */
export const withFlags = (text: string): string =>
  text
    .replaceAll(
      /\b(?:promptProfile|productPillar|callbackURL|allowSquadProduction)\b/g,
      (field) => flags[field] ?? field,
    )
    .replaceAll(/^Expected directory\b/gm, "Expected --directory")
    .replaceAll(/^Expected the header x-service-node\b/gm, "Expected --node");
