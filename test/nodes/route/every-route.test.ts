import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { shell } from "../../harness/double/hostile-text.ts";
import { type MockRequest, startMockProvider } from "../../harness/double/mock-provider.ts";
import { countSkipped, postgresURL } from "../../harness/postgres.ts";
import { git, until } from "../../harness/project.ts";
import { startReceiver } from "../../harness/receiver.ts";
import { create, ended, place, send } from "../stage.ts";
import { type Asked, type Round, table } from "./table.ts";

/**
 * What one node answers about Tasks, Missions and a directory that another one has: the same as that node, over the
 * address that it has for the others; when it is gone, the same where the database tells it, else its name.
 */

const documented = Object.entries(
  (JSON.parse(readFileSync(new URL("../../../docs/openapi.json", import.meta.url), "utf8")) as { paths: object }).paths,
).flatMap(([path, methods]) => Object.keys(methods as object).map((method) => `${method} ${path}`));

const asked = Object.entries(table).flatMap(([route, how]) => (typeof how === "string" ? [] : [{ route, how }]));

test("every route of the document is in the table, and no other", () => {
  expect(Object.keys(table).toSorted()).toEqual(documented.toSorted());
  // Few are left to other tests.
  expect(documented.length - asked.length).toBeLessThan(7);
});

type Service = { url: string };
type Said = { status: number; type: string | null; body: Buffer };

const answerTo = async (service: Service, route: string, how: Asked, round: Round): Promise<Said> => {
  const query = [`directory=${encodeURIComponent(round.directory)}`, ...(how.query ? [how.query(round)] : [])];
  const wants = !/^(?:get|delete) \/(?:health|nodes|models|metrics|openapi|doc|webhook|overview|projects)|webhook/.test(
    route,
  );
  const response = await fetch(`${service.url}${how.path(round)}${wants ? `?${query.join("&")}` : ""}`, {
    method: route.slice(0, route.indexOf(" ")).toUpperCase(),
    ...(how.body === undefined
      ? {}
      : { headers: { "content-type": "application/json" }, body: JSON.stringify(how.body(round)) }),
  });
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    body: Buffer.from(await response.arrayBuffer()),
  };
};

/** Without what is of the moment. */
const settled = (text: string): string =>
  text.replaceAll(/"(?:generatedAt|requestID|since)":"[^"]*"/g, "").replaceAll(/"(?:ageMs|now)":\d+/g, "");

/** What it does, by the request. */
const answer = ({ first, turn }: MockRequest) => {
  if (first.includes("ask me"))
    return turn === 0 ? { calls: [{ tool: "ask", input: { question: "Which?" } }] } : { hold: true, text: "Done." };
  if (!first.includes("change it")) return { text: "Done." };
  if (turn === 0) return shell(`echo new > ${/change it: (\w+)/.exec(first)?.[1]}.txt; echo kept > shot.txt`);
  if (turn === 1) return { calls: [{ tool: "artifact", input: { path: "shot.txt", title: "What it shows" } }] };
  return turn === 2 ? shell("rm shot.txt") : { text: "Done." };
};

describe.skipIf(postgresURL === undefined)("a Task of another node", () => {
  test("is answered for by every node while its own is up; then as far as the database tells, else with its name", {
    timeout: 180_000,
  }, async () => {
    await using here = await place();
    await using receiver = await startReceiver();
    const provider = await startMockProvider(answer);
    await using scope = new AsyncDisposableStack();
    scope.defer(() => (provider.release(), provider.close()));
    const config = join(here.path, "config.jsonc");
    writeFileSync(
      config,
      JSON.stringify({
        model: "mock/large",
        providers: { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } },
        webhooks: { allow: ["127.0.0.1"] },
      }),
    );
    const more = { SERVICE_CONFIG: config };
    const a = await here.start("a", "a", { ...more, SERVICE_NODE_URL: "http://127.0.0.1:0" });
    await using b = await here.start("b", "b", more);
    const directory = here.project("p");

    const prepare = async (name: string): Promise<Round> => {
      const done = await create(a, directory, `change it: ${name}.`, { checks: ["cat a.txt"] });
      const asking = await create(a, directory, "ask me", { landing: "branch" });
      for (const missionID of [`${name}-rests`, `${name}-woken`])
        await send(a, "POST", "/mission/wake", { directory, body: { missionID, text: "say hello", checks: [] } });
      expect((await ended(a, done)).body).toMatchObject({ lifecycleStatus: "completed" });
      const { body: waiting } = await until(
        () => send(a, "GET", `/task/${asking}/status`),
        ({ body }) => (body["pending"] as unknown[]).length === 1,
      );
      for (const missionID of [`${name}-rests`, `${name}-woken`])
        await until(
          () => send(a, "GET", `/mission/${missionID}/status`, { directory }),
          ({ body }) => body["status"] === "inactive" && body["agentStatus"] === "inactive",
        );
      const { body: status } = await send(a, "GET", `/task/${done}/status`);
      const { events } = (await send(a, "GET", `/task/${done}/events?format=json&after=0&limit=1000`)).body as {
        events?: { type: string; data: { callID: string; sessionID: string; artifactID: string } }[];
      };
      const dataOf = (wanted: string) => events?.find(({ type }) => type === wanted)?.data;
      const { body: hook } = await send(a, "POST", "/webhook", { body: { url: receiver.url } });
      return {
        directory,
        done,
        callID: dataOf("tool.finished")?.callID ?? "",
        sessionID: dataOf("session.started")?.sessionID ?? "",
        checkID: (status["checks"] as { id: string }[])[0]?.id ?? "",
        artifactID: dataOf("artifact.recorded")?.artifactID ?? "",
        asking,
        askID: (waiting["pending"] as { id: string }[])[0]?.id ?? "",
        rests: `${name}-rests`,
        woken: `${name}-woken`,
        webhookID: hook["webhookID"] as string,
        receiver: receiver.url,
      };
    };
    const rounds = { own: await prepare("own"), other: await prepare("other"), away: await prepare("away") };

    const wrong: string[] = [];
    for (const { route, how } of asked) {
      const reads = route.startsWith("get ");
      // What reads is asked twice for the same; what changes something, for two that are alike.
      if (how.ended === true) for (const { asking } of [rounds.own, rounds.other]) await ended(b, asking);
      const own = await answerTo(a, route, how, rounds.own);
      const other = await answerTo(b, route, how, reads ? rounds.own : rounds.other);
      if (own.status !== how.status)
        wrong.push(`${route}: expected ${how.status}, got ${own.status} ${own.body.toString().slice(0, 300)}`);
      if (other.status !== own.status || other.type !== own.type)
        wrong.push(
          `${route}: at a ${own.status} ${own.type}, at b ${other.status} ${other.type} ${other.body.toString().slice(0, 300)}`,
        );
      if (!reads || how.own === true) continue;
      const same =
        own.type === "application/zip"
          ? own.body.length === other.body.length
          : settled(own.body.toString()) === settled(other.body.toString());
      if (!same)
        wrong.push(
          `${route}: ${own.body.toString().slice(0, 2000)}\n is not \n${other.body.toString().slice(0, 2000)}`,
        );
    }
    expect(wrong.join("\n")).toBe("");

    await a[Symbol.asyncDispose]();
    for (const { route, how } of asked) {
      const { status, body } = await answerTo(b, route, how, rounds.away);
      const text = body.toString().slice(0, 400);
      if (how.files === true) {
        const named = status === 503 && text.includes('"code":"node_away"') && text.includes('"node":"a"');
        if (!named) wrong.push(`${route}: expected 503 node_away of a, got ${status} ${text}`);
      } else if (status !== (how.away ?? how.status))
        wrong.push(`${route}: expected ${how.away ?? how.status}, got ${status} ${text}`);
    }
    expect(wrong.join("\n")).toBe("");
    git(directory, "fsck", "--strict");
  });
});
if (postgresURL === undefined) countSkipped(1);
