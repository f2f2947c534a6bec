import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { createSecrets } from "../../src/redact.ts";
import { pacedMs } from "../harness/pace.ts";

/** A program that prints how long a megabyte of several kinds of text takes. */

export type Speed = { name: string; known: number; withPatterns: number };

const key = `sk-acme-9Zq/+"\\é&<${"kLm3nOp5qRs7".repeat(3)} end`;
const secrets = createSecrets([
  { kind: "key", value: key },
  { kind: "password", value: "hunter2-hunter2" },
  { kind: "short", value: "1234567" },
]);

const source = resolve(import.meta.dirname, "../../src");
const code = readdirSync(source, { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".ts"))
  .map((path) => readFileSync(join(source, path), "utf8"))
  .join("");

const kinds: readonly (readonly [name: string, piece: string])[] = [
  ["code", code],
  ["the beginning of a secret, again and again", key.slice(0, 12)],
  ["headers of keys", "-----BEGIN "],
  ["headers of private keys", "-----BEGIN RSA PRIVATE KEY-----"],
  ["secrets only", `${key}\n`],
  ["one letter", "s"],
  ["escapes", "\\u0061%62&#99;\\x64"],
  ["escapes of escapes", "%2525%5cu0061"],
  ["escapes that are none", "\\u00&#%\\\\x"],
];

const speedOf = ([name, piece]: (typeof kinds)[number]): Speed => {
  const text = piece.repeat(Math.ceil((1 << 20) / piece.length)).slice(0, 1 << 20);
  return {
    name,
    known: pacedMs(() => secrets.known(text), 50),
    withPatterns: pacedMs(() => secrets.all(text), 50),
  };
};

console.log(JSON.stringify(kinds.map(speedOf)));
