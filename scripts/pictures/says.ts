import { type MockRequest, type MockTurn, textOf } from "../../test/harness/double/mock-provider.ts";
import { page } from "./requests.ts";

/** What the model in the pictures says. Everything that is done for it is done by the service. */

const call = (tool: string, input: object) => ({ tool, input });
const spent = (input: number, output: number) => ({ usage: { input, output } });

const phases = [
  {
    id: "rates",
    title: "Read exchange rates from a file",
    phase: "rates",
    objective: "`readRates(path)` gives the rates of a file with one currency a line, and refuses a line that is none.",
    acceptance: ["npm test passes", "A line such as `EUR one` is refused by its number"],
  },
  {
    id: "convert",
    title: "Add amounts of different currencies",
    phase: "convert",
    objective: "`sum` takes amounts with a currency and gives the total in the first one's, in whole cents.",
    acceptance: ["npm test passes", "10 EUR and 10 USD at 0.92 are 19.20 EUR"],
    after: ["rates"],
  },
  {
    id: "command",
    title: "Currencies on the command line",
    phase: "command",
    objective: "`sum 10EUR 10USD --rates rates.txt` prints the total.",
    after: ["convert"],
  },
  {
    id: "manual",
    title: "Say in the manual how currencies are written",
    phase: "manual",
    objective: "Somebody who has never used it can add amounts of two currencies.",
    after: ["convert"],
  },
];

const rates = `import { readFileSync } from "node:fs";

/** Rates by currency, from lines such as "USD 0.92". */
export const readRates = (path) =>
  new Map(readFileSync(path, "utf8").trim().split("\\n").map((line, index) => {
    const found = /^([A-Z]{3}) (\\d+(?:\\.\\d+)?)$/.exec(line);
    if (found === null) throw new RangeError(\`Line \${index + 1}: expected a rate such as "USD 0.92", got "\${line}"\`);
    return [found[1], Number(found[2])];
  }));
`;

const mission = (turn: number): MockTurn =>
  [
    {
      text: "Four pieces of work. The rates come first, because everything else reads them; the command line and the manual can go side by side at the end.",
      calls: [call("plan", { phases })],
      ...spent(3120, 410),
    },
    {
      calls: [
        call("dispatch", {
          phase: "rates",
          title: "Read exchange rates from a file",
          request: "Add readRates(path) in rates.js: one currency a line, `USD 0.92`. Reject invalid lines.",
          checks: ["npm test"],
        }),
      ],
      ...spent(3640, 120),
    },
    { text: "**Rates** are in progress. I'll continue when they have landed.", ...spent(3810, 40) },
    {
      text: "The rates have landed, and their checks pass. `sum` can use them now.",
      calls: [
        call("dispatch", {
          phase: "convert",
          title: "Add amounts of different currencies",
          request: "Let sum take amounts with a currency. Total in the first one's currency, in whole cents.",
          checks: ["npm test"],
        }),
      ],
      ...spent(4200, 150),
    },
  ][turn] ?? {
    text: "`sum` with currencies is in progress; the command line and the manual come next.",
    ...spent(4400, 38),
  };

const small = (turn: number): MockTurn =>
  turn === 0
    ? {
        calls: [
          call("finish", {
            outcome: "done",
            summary: "Everything on the list is done; there is nothing left to plan.",
          }),
        ],
        ...spent(900, 40),
      }
    : { text: "There is nothing left to do." };

const guard = (turn: number): MockTurn =>
  [
    {
      text: "I'll look at how amounts are parsed, and at what the tests cover.",
      calls: [call("read", { path: "sum.js" }), call("read", { path: "sum.test.js" })],
      ...spent(4180, 96),
    },
    {
      text: "`parseAmount` refuses words, but `sum` adds whatever it is given: `sum([undefined])` is `NaN`. I'll make it reject that, and add a test.",
      calls: [
        call("edit", {
          path: "sum.js",
          edits: [
            {
              old: "/** Adds up amounts of money. */",
              new: `const checked = (amount, index) => {
  if (!Number.isFinite(amount)) throw new TypeError(\`Amount \${index + 1}: expected a number, got \${amount}\`);
  return amount;
};

/** Adds up amounts of money; rejects anything else. */`,
            },
            {
              old: "amounts.reduce((cents, amount) => cents + Math.round(amount * 100), 0) / 100;",
              new: "amounts.reduce((cents, amount, index) => cents + Math.round(checked(amount, index) * 100), 0) / 100;",
            },
          ],
        }),
        call("write", {
          path: "refuse.test.js",
          content: `import assert from "node:assert/strict";
import { test } from "node:test";
import { sum } from "./sum.js";

test("rejects values that are not numbers", () => {
  assert.throws(() => sum([1, undefined]), /Amount 2/);
});
`,
        }),
      ],
      ...spent(5230, 312),
    },
    { calls: [call("shell", { command: "node --test --test-reporter=dot" })], ...spent(5610, 44) },
    {
      text: "All tests pass, including the new one.\n\n- `sum` rejects anything that is not a finite number and says where: `Amount 2: expected a number, got undefined`.\n- `parseAmount` stays as it was; amounts from the command line never reach the new check.",
      ...spent(6020, 118),
    },
  ][turn] ?? { text: "Done.", ...spent(6100, 20) };

/** Whatever is asked: by the words that the request begins with. */
export const says = (request: MockRequest): MockTurn => {
  const { first, turn, body } = request;
  if (textOf(body.messages[0]?.content).includes("You lead one Mission"))
    return first.includes("more than one currency") ? mission(turn) : small(turn);
  if (first.includes("readRates(path) in rates.js"))
    return turn === 0
      ? {
          text: "A new module beside `sum.js`, without a dependency.",
          calls: [call("write", { path: "rates.js", content: rates })],
          ...spent(2900, 260),
        }
      : { text: "`readRates` is done; invalid lines are rejected with their line number.", ...spent(3300, 40) };
  if (first.includes("Let sum take amounts"))
    return turn === 0
      ? {
          text: "I'll read how amounts are added today.",
          calls: [call("read", { path: "sum.js" })],
          ...spent(3000, 50),
        }
      : { hold: true, text: "" };
  if (first.includes("not a number")) return guard(turn);
  if (first.includes("page with the total"))
    return turn === 0
      ? {
          text: "I'll add the currency to the total.",
          calls: [call("write", { path: "page.html", content: page("0.30 EUR") })],
        }
      : { text: "The page now shows the currency next to the total." };
  return { text: "Done." };
};
