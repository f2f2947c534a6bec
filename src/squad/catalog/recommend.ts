import { ServiceError } from "../../error.ts";
import type { Scan } from "./catalog.ts";
import { placeOf } from "../package/package.ts";
import type { CatalogEntry } from "./scope.ts";
import type { Scope } from "../squad.ts";

/**
 * Recommends squads for a phase of work. Only a squad that claims the phase in its own `owns` is an owner; squads with
 * similar words are listed separately and never become owners. Needs a complete and healthy catalog, because a squad
 * that cannot be read might be the owner.
 */

export type Candidate = { found: CatalogEntry; reasons: string[] };
export type Recommendation = { phase: string; owners: Candidate[]; related: Candidate[] };

export const recommend = (scan: Scan, phase: string, pillar: "code" | "work"): Recommendation => {
  if (!scan.healthy) throw unhealthy(scan);
  const wanted = slugOf(phase);
  const squads = scan.squads.filter(({ squad }) => squad.pillars.includes(pillar));
  const owners = squads.flatMap((found) => {
    const owned = ownedBy(found, wanted);
    return owned === undefined ? [] : [{ found, ...owned }];
  });
  const related = squads.flatMap((found) => {
    const words = owners.some((owner) => owner.found === found) ? [] : sharedWords(found, wanted);
    return words.length === 0 ? [] : [{ found, words }];
  });
  return {
    phase: wanted,
    owners: owners
      .toSorted(
        (one, other) =>
          shipped(one.found) - shipped(other.found) || one.rank - other.rank || byPlace(one.found, other.found),
      )
      .map(({ found, reasons }) => ({ found, reasons })),
    related: related
      .toSorted((one, other) => other.words.length - one.words.length || byPlace(one.found, other.found))
      .map(({ found, words }) => ({
        found,
        reasons: [`Its words: ${words.join(", ")}. It does not say that it owns the phase.`],
      })),
  };
};

const unhealthy = ({ issues, complete }: Scan): ServiceError => {
  const [first] = issues;
  const what = first === undefined ? "" : `: ${first.scope} ${first.squad} ${placeOf(first)}: ${first.message}`;
  return new ServiceError(
    "squad_invalid",
    `Expected a healthy and complete catalog, got ${complete ? "" : "an incomplete one with "}${issues.length} issues${what}.`,
    {
      issues: issues.map((issue) => ({
        path: `${issue.scope}/${issue.squad}/${placeOf(issue)}`,
        message: issue.message,
        code: issue.code,
      })),
    },
  );
};

/** A phase in the form that `owns` uses: each part in lower-case letters, digits and single hyphens. */
export const slugOf = (phase: string): string =>
  phase
    .split("/")
    .map((part) =>
      part
        .toLowerCase()
        .split(/[^a-z0-9]+/)
        .filter((word) => word !== "")
        .join("-"),
    )
    .filter((part) => part !== "")
    .join("/");

/** The more specific the squad's claim, the lower the rank; undefined: it claims nothing. */
const ownedBy = ({ squad: { owns } }: CatalogEntry, phase: string): { rank: number; reasons: string[] } | undefined => {
  const [domain = ""] = phase.split("/");
  if (owns.phases.includes(phase)) return { rank: 0, reasons: [`It owns the phase ${phase}.`] };
  if (owns.domains.includes(domain)) return { rank: 1, reasons: [`It owns the domain ${domain} with every phase.`] };
  return undefined;
};

const scopes: readonly Scope[] = ["project", "user", "builtin"];

/** Built-in squads rank below all installed ones, however exact their claim. */
const shipped = ({ scope }: CatalogEntry): number => (scope === "builtin" ? 1 : 0);

/** By scope, the project's first; then the more specialised squad; then by id. */
const byPlace = (one: CatalogEntry, other: CatalogEntry): number =>
  scopes.indexOf(one.scope) - scopes.indexOf(other.scope) ||
  breadth(one) - breadth(other) ||
  (one.squad.id < other.squad.id ? -1 : 1);

const breadth = ({ squad: { owns } }: CatalogEntry): number => owns.domains.length + owns.phases.length;

const sharedWords = ({ squad }: CatalogEntry, phase: string): string[] => {
  const { id, name, summary, owns } = squad;
  const words = new Set(
    [id, name, summary, ...owns.domains, ...owns.phases]
      .join(" ")
      .toLowerCase()
      .split(/[^a-z0-9]+/),
  );
  return [...new Set(phase.split(/[-/]/))].filter((word) => word.length > 2 && words.has(word));
};
