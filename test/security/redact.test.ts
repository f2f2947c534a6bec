import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createSecrets, mapStrings } from "../../src/redact.ts";
import { secretsOf } from "../../src/service/secret.ts";
import { pacedMs } from "../harness/pace.ts";
import type { Speed } from "./redact-speed.ts";

const key = `sk-acme-9Zq/+"\\é&<${"kLm3nOp5qRs7".repeat(3)} end`;
const word = "hunter2-hunter2";
const secrets = createSecrets([
  { kind: "key", value: key },
  { kind: "password", value: word },
  { kind: "short", value: "1234567" },
]);

const base64 = (before: string) => Buffer.from(`${before}${key} and more`).toString("base64");

/** Every form that is looked for, as it turns up in the midst of something. */
export const forms: Record<string, string> = {
  plain: `before ${key} after`,
  "base64 at 0": base64(""),
  "base64 at 1": base64("a"),
  "base64 at 2": base64("ab"),
  base64url: Buffer.from(`ab${key}~~~`).toString("base64url"),
  "base64 in lines": base64("user:").replace(/.{40}/g, "$&\n"),
  "URL-escaped": `https://x.test/?key=${encodeURIComponent(key)}&more`,
  "URL-escaped in lower case": encodeURIComponent(key).replace(/%../g, (escape) => escape.toLowerCase()),
  form: new URLSearchParams({ key }).toString().replaceAll("%2B", "%2B"),
  JSON: JSON.stringify({ key }),
  "JSON in JSON": JSON.stringify({ body: JSON.stringify({ key }) }),
  HTML: `<p>${key.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`)}</p>`,
  hex: Buffer.from(key).toString("hex"),
};

/** The longest stretch of the value that is still in a text, read plainly and through what undoes the forms. */
const left = (text: string): number => {
  let most = 0;
  for (let from = 0; from < key.length; from += 1)
    for (let to = from + most + 1; to <= key.length && text.includes(key.slice(from, to)); to += 1) most = to - from;
  return most;
};

describe("C5 known values", () => {
  test.each(Object.entries(forms))("%s goes", (_name, text) => {
    const clean = secrets.known(text);
    expect(clean).toContain("[redacted:key]");
    expect(clean).not.toBe(text);
    const undone = [
      clean,
      Buffer.from(clean, "base64").toString(),
      Buffer.from(clean.slice(1), "base64").toString(),
      Buffer.from(clean, "hex").toString(),
      clean.replace(/%[0-9a-f]{2}/gi, (escape) => String.fromCharCode(Number.parseInt(escape.slice(1), 16))),
    ];
    expect(Math.max(...undone.map(left))).toBeLessThan(12);
  });

  test("control: a secret this service does not know stays, and so do a short one and what is no secret", () => {
    const other = createSecrets([{ kind: "key", value: "another-value-of-some-length" }]);
    for (const text of Object.values(forms)) expect(other.known(text)).toBe(text);
    expect(secrets.known("1234567 hunter2 hunter2-hunter")).toBe("1234567 hunter2 hunter2-hunter");
  });

  test("a part of a long one goes too, wherever it was cut; a whole short one, anywhere", () => {
    for (let at = 0; at + 20 <= key.length; at += 1)
      expect(secrets.known(`x${key.slice(at, at + 20)}`)).toBe("x[redacted:key]");
    for (let at = 0; at < 40; at += 1)
      expect(secrets.known(`${"-".repeat(at)}${word}.`)).toBe(`${"-".repeat(at)}[redacted:password].`);
  });

  test("many in one text, side by side", () => {
    expect(secrets.known(`${word}${word}${key}${word}`)).toBe(
      "[redacted:password][redacted:password][redacted:key][redacted:password]",
    );
  });

  test("bytes that are no text keep every other byte", async () => {
    const bytes = Buffer.concat([Buffer.from([0, 255, 128]), Buffer.from(key), Buffer.from([254, 10])]);
    expect(Buffer.from(await secrets.bytes(bytes)).toString("latin1")).toBe("\0\xff\x80[redacted:key]\xfe\n");
    const others = Buffer.from([1, 2, 3, 200, 201]);
    expect(await secrets.bytes(others)).toBe(others);
  });

  test("in pieces, cut at every place: the same as in one", () => {
    const text = `say ${key}, ${word}; hunter2-hunter sk-acme-9 ${word}`;
    for (let size = 1; size < 30; size += 1) {
      const stream = secrets.stream();
      let clean = "";
      let most = 0;
      for (let at = 0; at < text.length; at += size) {
        clean += stream.push(text.slice(at, at + size));
        most = Math.max(most, left(clean));
      }
      clean += stream.end();
      expect([size, clean]).toEqual([
        size,
        "say [redacted:key], [redacted:password]; hunter2-hunter sk-acme-9 [redacted:password]",
      ]);
      // What is left are the nine of the text's own "sk-acme-9".
      expect(most).toBeLessThan(10);
    }
  });

  test("bytes in pieces, cut anywhere: the same as in one, again and again; control: bytes without any stay", async () => {
    const whole = Buffer.concat([randomBytes(300), Buffer.from(`${key} ${base64("x")} ${word}`), randomBytes(300)]);
    const clean = Buffer.from(await secrets.bytes(whole));
    expect(clean.includes("[redacted:key]")).toBe(true);
    const inPieces = async (bytes: Buffer, size: number, redact: ReturnType<typeof secrets.pieces>) => {
      async function* pieces() {
        for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
      }
      const parts: Uint8Array[] = [];
      for await (const part of redact(pieces())) parts.push(part);
      return Buffer.concat(parts);
    };
    const redact = secrets.pieces();
    for (let size = 1; size < 120; size += 7)
      for (let turn = 0; turn < 2; turn += 1) expect((await inPieces(whole, size, redact)).equals(clean)).toBe(true);
    const other = randomBytes(5000);
    expect((await inPieces(other, 999, redact)).equals(other)).toBe(true);
  });

  test("a large text in pieces is clean or not as in one, wherever the secret stands", async () => {
    const line = "nothing to see in this line of a log\n";
    const lines = Buffer.from(line.repeat(1024 ** 2 / line.length));
    const isClean = (bytes: Buffer): Promise<boolean> =>
      secrets.isClean(
        (async function* () {
          for (let at = 0; at < bytes.length; at += 200_001) yield bytes.subarray(at, at + 200_001);
        })(),
      );
    expect(await isClean(lines)).toBe(true);
    expect(await isClean(Buffer.alloc(0))).toBe(true);
    // Without lines as well.
    for (const filler of [lines, Buffer.alloc(lines.length, "-")])
      for (const found of [key, word, `AKIA${"Q7".repeat(8)}`])
        for (const at of [512 * 1024 - 9, 600_002, filler.length - 60]) {
          const bytes = Buffer.from(filler);
          bytes.write(` ${found} `, at);
          expect([at, await isClean(bytes)]).toEqual([at, false]);
        }
    // Half of a word, as a cut would make it, looks like a key.
    const word26 = Buffer.from(`noAKIA${"Q7".repeat(11)}\n`.repeat(20_000));
    expect([await isClean(word26), await secrets.isClean(word26)]).toEqual([true, true]);
  });

  test("plain data keeps its identity where nothing changes", () => {
    const data = { a: [1, { b: "x" }], c: null };
    expect(mapStrings(data, secrets.known)).toBe(data);
    expect(mapStrings({ [word]: ["y", word], z: 1 }, secrets.known)).toEqual({
      "[redacted:password]": ["y", "[redacted:password]"],
      z: 1,
    });
  });
});

describe("C5 escapes of any character", () => {
  const hex = (code: number, digits: number) => code.toString(16).padStart(digits, "0");
  const bytes = (text: string, escape: (byte: number) => string) => [...Buffer.from(text)].map(escape).join("");
  const points = (text: string, escape: (point: number) => string) =>
    Array.from(text)
      .map((character) => escape(character.codePointAt(0) ?? 0))
      .join("");
  const units = (text: string, escape: (unit: number) => string) =>
    Array.from({ length: text.length }, (_, at) => escape(text.charCodeAt(at))).join("");
  const escapes: Record<string, (text: string) => string> = {
    "\\u0061": (text) => units(text, (unit) => `\\u${hex(unit, 4)}`),
    "\\U0061 in capitals": (text) => units(text, (unit) => `\\u${hex(unit, 4).toUpperCase()}`),
    "\\u{61}": (text) => points(text, (point) => `\\u{${hex(point, 1)}}`),
    "\\x61": (text) => bytes(text, (byte) => `\\x${hex(byte, 2)}`),
    "\\141": (text) => bytes(text, (byte) => `\\${byte.toString(8).padStart(3, "0")}`),
    "%61": (text) => bytes(text, (byte) => `%${hex(byte, 2)}`),
    "%u0061": (text) => units(text, (unit) => `%u${hex(unit, 4)}`),
    "&#97;": (text) => points(text, (point) => `&#${point};`),
    "&#0097;": (text) => points(text, (point) => `&#${String(point).padStart(7, "0")};`),
    "&#x61;": (text) => points(text, (point) => `&#x${hex(point, 2)};`),
  };
  /** A value with characters of one, two, and more bytes. */
  const odd = `tök-€-😀-${"Zx9".repeat(6)}-"end"`;
  const all = createSecrets([
    { kind: "key", value: key },
    { kind: "password", value: word },
    { kind: "odd", value: odd },
  ]);

  test.each(Object.entries(escapes))("%s of every one of them", (_name, escape) => {
    for (const [value, kind] of [
      [key, "key"],
      [word, "password"],
      [odd, "odd"],
    ] as const)
      for (const text of [escape(value), escape(escape(value)), JSON.stringify({ a: escape(value) }).slice(6, -2)])
        expect(all.known(`before <${text}> after`)).toBe(`before <[redacted:${kind}]> after`);
  });

  const plain = (text: string) => text;
  const one = fc.constantFrom(...Object.values(escapes), plain);
  /** Each character of a value under some escape, all of it once more under another. */
  const mixed = (value: string) =>
    fc.tuple(fc.array(one, { minLength: value.length, maxLength: value.length }), one).map(([each, whole]) =>
      whole(
        Array.from(value)
          .map((character, at) => each[at]?.(character) ?? "")
          .join(""),
      ),
    );

  test("in any mixture, whole and in pieces cut anywhere", () => {
    fc.assert(
      fc.property(mixed(word), mixed(odd), fc.integer({ min: 1, max: 40 }), (first, second, size) => {
        const text = `say ${first}, then ${second}.`;
        const clean = "say [redacted:password], then [redacted:odd].";
        expect(all.known(text)).toBe(clean);
        const stream = all.stream();
        let pieces = "";
        for (let at = 0; at < text.length; at += size) pieces += stream.push(text.slice(at, at + size));
        expect(pieces + stream.end()).toBe(clean);
      }),
      { numRuns: 300 },
    );
  });

  test("a long one of which a part stands plainly goes as a whole; what stands beside it stays as it is", () => {
    const escape = escapes["\\u0061"] ?? String;
    const text = `%41 &lt; \\u0042 ${key.slice(0, 22)}${escape(key.slice(22))} \\\\x43 &amp;amp; 100%`;
    expect(all.known(text)).toBe("%41 &lt; \\u0042 [redacted:key] \\\\x43 &amp;amp; 100%");
  });

  test("control: escapes of other values stay, and so does what only looks like an escape", () => {
    for (const escape of Object.values(escapes)) {
      const text = `${escape("another-value-of-some-length")} ${escape(word.slice(0, 9))}`;
      expect(all.known(text)).toBe(text);
    }
    const text = "\\u12 \\u{110000} \\x4 \\18 %4 %zz &# &#; &#x; &#99999999; &lt &unknown; \\ % & \\u{61";
    expect(all.known(text)).toBe(text);
    const stream = all.stream();
    expect(
      Array.from(text)
        .map((character) => stream.push(character))
        .join("") + stream.end(),
    ).toBe(text);
  });
});

describe("C5 forms of secrets", () => {
  const body = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7d";
  test.each([
    ["key", `sk-ant-api03-${body}`, "[redacted:key]"],
    ["github-token", `ghp_${body.slice(0, 36)}`, "[redacted:github-token]"],
    ["gitlab-token", `glpat-${body.slice(0, 20)}`, "[redacted:gitlab-token]"],
    ["aws-key", "AKIAIOSFODNN7EXAMPLE", "[redacted:aws-key]"],
    ["google-key", `AIza${body.slice(0, 35)}`, "[redacted:google-key]"],
    ["slack-token", `xoxb-1234-${body}`, "[redacted:slack-token]"],
    ["npm-token", `npm_${body.slice(0, 36)}`, "[redacted:npm-token]"],
    ["jwt", `eyJ${body}.eyJ${body}.${body}`, "[redacted:jwt]"],
    ["authorization", `Authorization: Bearer ${body}==`, "Authorization: Bearer [redacted:authorization]"],
    ["url-password", "postgres://user:pa55w0rd@db/x", "postgres://user:[redacted:url-password]@db/x"],
    ["variable", `export ACME_API_KEY=${body}`, "export ACME_API_KEY=[redacted:variable]"],
    [
      "private-key",
      `-----BEGIN RSA PRIVATE KEY-----\n${`${body}\n`.repeat(20)}-----END RSA PRIVATE KEY-----`,
      "[redacted:private-key]",
    ],
  ])("%s", (_kind, text, clean) => {
    expect(secrets.all(`a ${text} b`)).toBe(`a ${clean} b`);
    // A line of JSON stays one.
    expect(JSON.parse(secrets.all(JSON.stringify({ text, next: `"${text}"` })))).toEqual({
      text: clean,
      next: `"${clean}"`,
    });
    // Forms are for the log and the export only.
    expect(secrets.known(text)).toBe(text);
  });

  test("control: words that only look a little like one stay", () => {
    const text =
      "sk-learn ghp_ AKIA Bearer of news https://user@host/ a task-based eyJ. TOKEN=short monkey=12345678901";
    expect(secrets.all(text)).toBe(text);
  });
});

describe("C5 which values are secrets", () => {
  test("keys, headers, passwords, named variables, and what calls itself one and looks like it", () => {
    const found = secretsOf({
      password: "server-password",
      databaseURL: "postgres://u:p%40ssword@h/d",
      databaseDirectURL: "postgres://u:another-p4ssword@h/d",
      providers: {
        acme: {
          kind: "openai-compatible",
          apiKey: "env:ACME",
          headers: { "X-Key": "Bearer header-value", Accept: "x" },
        },
        direct: { kind: "openai-compatible", apiKey: "in-the-file" },
      },
      env: {
        ACME: "acme-value",
        OPENAI_API_KEY: "openai-value",
        MINE: "my-value",
        DEPLOY_TOKEN: "a1b2c3d4e5f6g7h8",
        SSH_KEY: "/home/u/.ssh/id_ed25519",
        MONKEY: "a sentence with 1 number",
        HOME: "a1b2c3d4e5f6g7h8i9",
      },
      secrets: ["MINE"],
    });
    expect(found.map(({ kind, value }) => `${kind} ${value}`)).toEqual([
      "password server-password",
      "database-password p@ssword",
      "database-password another-p4ssword",
      "OPENAI_API_KEY openai-value",
      "ACME acme-value",
      "acme-header header-value",
      "direct-key in-the-file",
      "MINE my-value",
      "DEPLOY_TOKEN a1b2c3d4e5f6g7h8",
    ]);
  });
});

describe("C5 speed", () => {
  // In a process of its own: here the garbage of the tests before would be counted too.
  const { stdout } = spawnSync(process.execPath, [join(import.meta.dirname, "redact-speed.ts")], { encoding: "utf8" });
  const all = JSON.parse(stdout) as Speed[];
  test.each(all)("a megabyte of $name takes less than 50 ms", ({ name, known, withPatterns }) => {
    console.log(`${name}: known values ${known.toFixed(1)} ms, with patterns ${withPatterns.toFixed(1)} ms`);
    expect(known).toBeLessThan(50);
    expect(withPatterns).toBeLessThan(50);
  });

  test("control: what reads its text ten times takes longer", () => {
    const text = "%2525%5cu0061".repeat(1 << 16);
    const tenTimes = () => Array.from({ length: 10 }, () => secrets.known(text));
    expect(pacedMs(tenTimes, 50)).toBeGreaterThan(50);
  });
});
