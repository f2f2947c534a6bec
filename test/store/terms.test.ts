import { Client } from "pg";
import { describe, expect, test } from "vitest";
import { dueNow, dueToEnd } from "../../src/engine/due.ts";
import { silent } from "../../src/log.ts";
import { unmetTerms, type Offer, type Terms, reasonNotTaken } from "../../src/store/node.ts";
import { createPostgresStore } from "../../src/store/postgres/postgres.ts";
import { created, settled } from "../harness/events.ts";
import { countSkipped, freshSchema, postgresURL } from "../harness/postgres.ts";
import { temporary } from "../harness/project.ts";

/** What a Task asks for, and which nodes have it: in words, and as the database judges it. Whose a directory is. */

const configuration = { squads: "s1", permissions: "p1", providers: "m1", limits: "l1" };
const terms: Terms = { ...configuration, tier: 2, browser: true };
const whole: Offer = { configuration, tier: 2, browser: true, hasSpace: true };

const cases: [lacks: string[], terms: Terms | null, offer: Offer][] = [
  [[], terms, whole],
  [[], terms, { ...whole, tier: 1 }],
  [["a weaker sandbox"], terms, { ...whole, tier: 3 }],
  [["no browser"], terms, { ...whole, browser: false }],
  [[], { ...terms, browser: false }, { ...whole, browser: false }],
  [["other squads"], terms, { ...whole, configuration: { ...configuration, squads: "s2" } }],
  [
    ["other providers", "other limits"],
    terms,
    { ...whole, configuration: { ...configuration, providers: "m2", limits: "l2" } },
  ],
  [["no room on its disk"], terms, { ...whole, hasSpace: false }],
  // Of an older version: a Task without terms, and a node that says nothing of its configuration.
  [[], null, { ...whole, tier: 3, browser: false }],
  [["no room on its disk"], null, { ...whole, hasSpace: false }],
  [[], terms, { ...whole, configuration: null }],
];

test.each(cases)("lacking: %j", (lacks, asked, offer) => {
  expect(unmetTerms(asked, offer)).toEqual(lacks);
});

test("why none takes it: each node with what it lacks; nothing where one lacks nothing", () => {
  const weak = { ...whole, tier: 3, browser: false };
  expect(reasonNotTaken(terms, new Map())).toMatch(/none is up/);
  expect(reasonNotTaken(terms, new Map([["a", weak]]))).toBe(
    "waits for a node like the one that accepted it: a has a weaker sandbox, no browser",
  );
  expect(
    reasonNotTaken(
      terms,
      new Map([
        ["a", weak],
        ["b", whole],
      ]),
    ),
  ).toBeUndefined();
});

const nodesIn = (schema: string, dataDir: string) => {
  const url = new URL(postgresURL ?? "");
  url.searchParams.set("options", `-c search_path=${schema}`);
  return (name: string) =>
    createPostgresStore({
      url: url.href,
      dataDir,
      log: silent,
      blobs: "database",
      node: { name, instance: name, turn: () => Promise.resolve(undefined) },
    });
};

describe.skipIf(postgresURL === undefined)("PostgreSQL", () => {
  test("what a node has begun others take up where it drains or runs nothing, and nobody while it is held", async () => {
    await using schema = freshSchema(postgresURL ?? "");
    await schema.create();
    using folder = temporary("sortie-terms-");
    const url = new URL(postgresURL ?? "");
    url.searchParams.set("options", `-c search_path=${schema.name}`);
    const open = (name: string) =>
      createPostgresStore({
        url: url.href,
        dataDir: folder.path,
        log: silent,
        blobs: "database",
        node: { name, instance: name, turn: () => Promise.resolve(undefined) },
      });
    await using a = await open("a");
    await using b = await open("b");
    const client = new Client({ connectionString: url.href });
    await client.connect();
    await using _end = { [Symbol.asyncDispose]: () => client.end() };
    await client.query(
      `insert into nodes select 'a', 'a', 'h', 1, '/', '1', 0, (extract(epoch from clock_timestamp()) * 1000 + 600000)::bigint, false, '{}'`,
    );
    const say = (about: object) => client.query("update nodes set about = $1", [JSON.stringify(about)]);
    const make = async (repository: object) => {
      const { type, data } = created();
      const [stream, due] = [data.taskID, dueNow(new Date(), "normal")];
      await a.commit({
        appends: [{ stream, expected: 0, events: [{ type, data: { ...data, ...repository } }] }],
        due: [{ stream, due }],
      });
      return stream;
    };
    const movable = await make({ repository: { url: "https://example.org/app.git", ref: "main" } });
    const fixed = await make({});
    const dueFor = async () => (await b.due(new Date(Date.now() + 60_000), 100)).map(({ stream }) => stream);
    const held = await a.claim(movable, "a");
    await say({ role: "all", draining: true });
    expect(await dueFor()).toEqual([]);
    await held?.[Symbol.asyncDispose]();
    for (const [about, due] of [
      [{ role: "all", draining: false }, []],
      [{}, []],
      [{ role: "all", draining: true }, [movable]],
      [{ role: "api", draining: false }, [movable]],
    ] as const) {
      await say(about);
      expect([about, await dueFor()]).toEqual([about, due]);
      expect([...((await b.nodes?.unplaced([movable, fixed])) ?? [])]).toEqual(due.map((stream) => [stream, null]));
    }
    // The files that it has are then its own to remove.
    await (await b.claim(movable, "b"))?.[Symbol.asyncDispose]();
    expect(await a.nodes?.unneeded()).toEqual([movable]);
  });

  test("what is due for a node is what it does not lack anything for; to end one it needs nothing", async () => {
    await using schema = freshSchema(postgresURL ?? "");
    await schema.create();
    using folder = temporary("sortie-terms-");
    const open = nodesIn(schema.name, folder.path);
    await using a = await open("a");
    await using b = await open("b");
    const make = async (asked: Terms | null, due = dueNow(new Date(), "normal")) => {
      const { type, data } = created();
      const repository = { url: "https://example.org/app.git", ref: "main" };
      const event = { type, data: { ...data, repository, ...(asked === null ? {} : { terms: asked }) } };
      await a.commit({
        appends: [{ stream: data.taskID, expected: 0, events: [event] }],
        due: [{ stream: data.taskID, due }],
      });
      return data.taskID;
    };
    const ids = new Map<Terms | null, string>();
    for (const [, asked] of cases) if (!ids.has(asked)) ids.set(asked, await make(asked));
    const over = await make(terms, dueToEnd(new Date()));
    const dueFor = async () => new Set((await b.due(new Date(Date.now() + 60_000), 100)).map(({ stream }) => stream));
    for (const [lacks, asked, offer] of cases) {
      b.nodes?.offer(() => offer);
      const due = await dueFor();
      expect([offer, asked, due.has(ids.get(asked) ?? "")]).toEqual([offer, asked, lacks.length === 0]);
      expect(due.has(over)).toBe(true);
    }
    expect(await b.nodes?.unplaced([ids.get(terms) ?? "", ids.get(null) ?? ""])).toEqual(
      new Map([
        [ids.get(terms), terms],
        [ids.get(null), null],
      ]),
    );
    // Begun here it is this node's, whatever becomes of its configuration.
    const begun = ids.get(terms) ?? "";
    b.nodes?.offer(() => whole);
    await (await b.claim(begun, "b"))?.[Symbol.asyncDispose]();
    b.nodes?.offer(() => ({ ...whole, tier: 3, hasSpace: false }));
    const later = await dueFor();
    expect([later.has(begun), later.has(over), later.size]).toEqual([true, true, 2]);
  });

  test("a directory is known as a node's while that has something of its project, erased by whichever", async () => {
    await using schema = freshSchema(postgresURL ?? "");
    await schema.create();
    using folder = temporary("sortie-terms-");
    const open = nodesIn(schema.name, folder.path);
    await using a = await open("a");
    await using b = await open("b");
    const make = async (store: typeof a, name: string, directory = `/work/${name}`) => {
      const event = created({ directory, project: `/work/${name}` });
      const stream = event.data.taskID;
      await store.commit({ appends: [{ stream, expected: 0, events: [event, settled()] }] });
      return stream;
    };
    const known = async (path: string) => ((await b.nodes?.directories(path)) ?? []).map(({ node }) => node);
    const [one, inside, theirs, other] = [
      await make(a, '"p" ä'),
      await make(a, '"p" ä', '/work/"p" ä/inside'),
      await make(b, '"p" ä'),
      await make(a, "q"),
    ];
    const path = '/work/"p" ä';
    expect([await known(path), await known(`${path}/inside`), await known("/work/q")]).toEqual([
      ["a", "b"],
      ["a"],
      ["a"],
    ]);
    await b.erase(one, 2);
    expect([await known(path), await known(`${path}/inside`)]).toEqual([["a", "b"], ["a"]]);
    await b.erase(inside, 2);
    expect([await known(path), await known(`${path}/inside`), await known("/work/q")]).toEqual([["b"], [], ["a"]]);
    // It is begun there again.
    const again = await make(a, '"p" ä');
    expect(await known(path)).toEqual(["a", "b"]);
    for (const stream of [again, theirs, other]) await a.erase(stream, 2);
    expect([await known(path), await known("/work/q")]).toEqual([[], []]);
  });
});
if (postgresURL === undefined) countSkipped(2);
