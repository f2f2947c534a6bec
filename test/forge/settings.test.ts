import { expect, test } from "vitest";
import { type EventSettings, parseEvents } from "../../src/forge/settings.ts";

/** What an operator may write into `repositories.events`. */

const entry: EventSettings = {
  match: "https://github.com/acme/*",
  forge: "github",
  secret: "env:EVENTS",
  authors: ["ada"],
  label: "sortie",
  mention: "@sortie",
  tasksPerHour: 10,
  checkRounds: 3,
  network: false,
  secrets: false,
};
const env = { EVENTS: "0123456789abcdef", SHORT: "0123456789" };
const bare = { network: false, env: [], web: false };
const problemOf = (more: Partial<EventSettings>, given: Parameters<typeof parseEvents>[2] = bare) => {
  const parsed = parseEvents([{ ...entry, ...more }], env, given);
  return typeof parsed === "string" ? parsed : undefined;
};

test("an entry is taken, where its Tasks get neither network nor variables", () => {
  expect(problemOf({})).toBeUndefined();
  expect(problemOf({ secret: "env:SHORT" })).toContain("at least 16 characters");
  expect(problemOf({ secret: "env:NONE" })).toContain("at least 16 characters");
  expect(problemOf({ secret: "plain" })).toContain("expected env:NAME or file:/PATH");
  expect(problemOf({ match: "github.com" })).toContain("expected scheme://host/path");
});

test("texts of others get a network or variables only where the entry says so", () => {
  for (const given of [
    { ...bare, network: true },
    { ...bare, web: true },
  ]) {
    expect(problemOf({}, given)).toContain('"network": true');
    expect(problemOf({ secrets: true }, given)).toContain('"network": true');
    expect(problemOf({ network: true }, given)).toBeUndefined();
  }
  expect(problemOf({}, { ...bare, env: ["NPM_REGISTRY"] })).toContain("NPM_REGISTRY");
  expect(problemOf({ secrets: true }, { ...bare, env: ["NPM_REGISTRY"] })).toBeUndefined();
});
