/** The fields of requests, with the names that they have on the command line. */

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

/** The path of an issue, such as `body.budget.maxCostUSD`, as a flag; without the prefix when it has no flag. */
export const flagOf = (path: string): string => {
  const field = path.replace(/^(?:body|query|path)\./, "");
  const [first = "", second = ""] = field.split(/[.[]/);
  return flags[`${first}.${second}`] ?? flags[first] ?? field;
};

/** Replaces field names in a sentence of the service with their flags. */
export const withFlags = (text: string): string =>
  text
    .replaceAll(
      /\b(?:promptProfile|productPillar|callbackURL|allowSquadProduction)\b/g,
      (field) => flags[field] ?? field,
    )
    .replaceAll(/^Expected directory\b/gm, "Expected --directory")
    .replaceAll(/^Expected the header x-service-node\b/gm, "Expected --node");
