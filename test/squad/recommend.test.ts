import { expect, test } from "vitest";
import { createCatalog, type Scan } from "../../src/squad/catalog/catalog.ts";
import { recommend } from "../../src/squad/catalog/recommend.ts";
import type { CatalogEntry } from "../../src/squad/catalog/scope.ts";
import type { Squad } from "../../src/squad/squad.ts";
import { temporary } from "../harness/project.ts";

/** Whom a phase belongs to, with the squads that are built in. */

const catalogWith = async (...installed: CatalogEntry[]): Promise<Scan> => {
  using data = temporary("sortie-recommend-");
  const scan = await createCatalog({ dataDir: data.path, external: [] }).scan();
  return { ...scan, squads: [...scan.squads, ...installed] };
};
const ownersOf = (scan: Scan, phase: string, pillar: "code" | "work") =>
  recommend(scan, phase, pillar).owners.map(({ found: { squad } }) => squad.id);
const installed = async (id: string, scope: "project" | "user", owns: Squad["owns"]): Promise<CatalogEntry> => {
  const base = (await catalogWith()).squads.find(({ squad }) => squad.id === "base");
  if (base === undefined) throw new Error("no base");
  return { ...base, scope, squad: { ...base.squad, id, owns } };
};

test.each(["code", "work"] as const)(
  "documents and research have an owner each for %s; nothing else has",
  async (pillar) => {
    const scan = await catalogWith();
    const phases = ["docs", "Docs/Guide", "documentation/reference", "research", "research/licences"];
    expect(phases.map((phase) => ownersOf(scan, phase, pillar))).toEqual([
      ["docs"],
      ["docs"],
      ["docs"],
      ["research"],
      ["research"],
    ]);
    // What resembles owns nothing, and the general squads own nothing at all.
    for (const phase of ["web/docs", "write the docs", "code", "base", "advanced", "feature", "security/research"])
      expect([phase, ownersOf(scan, phase, pillar)]).toEqual([phase, []]);
    for (const { squad } of scan.squads)
      if (squad.id === "base" || squad.id === "advanced") expect(squad.owns).toEqual({ domains: [], phases: [] });
  },
);

test("whatever is installed comes before what is built in; among the installed the exact claim first", async () => {
  const domain = await installed("handbooks", "user", { domains: ["docs"], phases: [] });
  const exact = await installed("guides", "user", { domains: [], phases: ["docs/guide"] });
  const ours = await installed("our-docs", "project", { domains: ["docs"], phases: [] });
  const scan = await catalogWith(domain, exact, ours);
  expect(ownersOf(scan, "docs/guide", "work")).toEqual(["guides", "our-docs", "handbooks", "docs"]);
  expect(ownersOf(scan, "docs/reference", "work")).toEqual(["our-docs", "handbooks", "docs"]);
  // Also where the built-in one has the more exact claim.
  const squads = scan.squads.map((entry) =>
    entry.squad.id === "docs"
      ? { ...entry, squad: { ...entry.squad, owns: { domains: [], phases: ["docs/guide"] } } }
      : entry,
  );
  expect(ownersOf({ ...scan, squads }, "docs/guide", "code")).toEqual(["guides", "our-docs", "handbooks", "docs"]);
  // Control: an exact claim of the project's own does come first.
  const own = await installed("our-guides", "project", { domains: [], phases: ["docs/guide"] });
  expect(ownersOf(await catalogWith(own, exact), "docs/guide", "work")).toEqual(["our-guides", "guides", "docs"]);
});
