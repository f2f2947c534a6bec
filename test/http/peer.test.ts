import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { createVerifier, peerHeader, sign, type Signed } from "../../src/http/peer/signature.ts";

/** How a node tells a request of another node from every other one. */

const key = randomBytes(32);
const start = Date.parse("2026-01-01T00:00:00.000Z");
const request: Signed = { method: "GET", target: "/task/t/diff?x=1", from: "b", to: "a", body: Buffer.from("") };
const at = (seconds: number) => new Date(start + seconds * 1000);

const verified = (
  header: string,
  { method = request.method, target = request.target, to = "a", seconds = 0, with: other = key } = {},
) => createVerifier(other, to, () => at(seconds))(method, target, { [peerHeader]: header });

test("what is signed is taken, once, for a minute; control for each refusal below", () => {
  const header = sign(key, request, at(0));
  expect(verified(header)?.sha256).toMatch(/^[0-9a-f]{64}$/);
  for (const seconds of [-59, 59]) expect(verified(header, { seconds })).toBeDefined();
  const verify = createVerifier(key, "a", () => at(0));
  const once = () => verify(request.method, request.target, { [peerHeader]: header });
  expect([once() !== undefined, once()]).toEqual([true, undefined]);
});

test.each([
  ["too late", { seconds: 61 }],
  ["too early", { seconds: -61 }],
  ["for another path", { target: "/task/t/diff?x=2" }],
  ["by another method", { method: "DELETE" }],
  ["for another node", { to: "c" }],
  ["with another key", { with: randomBytes(32) }],
])("%s it is refused", (_what, changed) => {
  expect(verified(sign(key, request, at(0)), changed)).toBeUndefined();
});

test.each([
  ["no header", ""],
  ["a sender that is another one", sign(key, request, at(0)).replace("from=b", "from=c")],
  ["a time that is another one", sign(key, request, at(0)).replace(/time=\d+/, `time=${start + 1}`)],
  ["a word that is another one", sign(key, request, at(0)).replace(/word=\w+/, `word=${"0".repeat(32)}`)],
  ["a body that is another one", sign(key, request, at(0)).replace(/body=\w+/, `body=${"0".repeat(64)}`)],
  ["something behind it", `${sign(key, request, at(0))}; x=1`],
])("refused with %s", (_what, header) => {
  expect(verified(header)).toBeUndefined();
});
