import { readFileSync, statSync } from "node:fs";
import { type IncomingHttpHeaders, request } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { temporary } from "../../harness/project.ts";
import { createDouble } from "../mission/double.ts";

/** The log-in form, and the cookie that it gives: for this origin alone, until it ends. */

type Double = Awaited<ReturnType<typeof createDouble>>;
type Answer = { status: number; headers: IncomingHttpHeaders; text: string };

const auth = { username: "service", password: "correct horses" };
const hour = 3_600_000;
let now = 1_800_000_000_000;
let double: Double;
beforeAll(async () => {
  double = await createDouble({ auth, now: () => now });
});
// Wrong passwords of the test before are forgotten.
beforeEach(() => void (now += 60_000));
const root = temporary("sortie-login-");
afterAll(async () => {
  await double.close();
  root[Symbol.dispose]();
});

const send = (
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body = "",
  at: Double = double,
): Promise<Answer> =>
  new Promise((resolve, reject) => {
    // As it stands: the parser of URLs would quote what the form has to.
    const sent = request({ host: "127.0.0.1", port: at.port, path, method, headers, agent: false }, (response) => {
      let text = "";
      response.on("data", (piece) => (text += String(piece)));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
const navigates = { accept: "text/html,*/*;q=0.8", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
const post = (fields: Record<string, string>, at: Double = double, headers: Record<string, string> = {}) =>
  send(
    "POST",
    "/login",
    { "content-type": "application/x-www-form-urlencoded", origin: at.url, ...headers },
    String(new URLSearchParams(fields)),
    at,
  );
const right = { username: "service", password: "correct horses" };
const cookieOf = ({ headers }: Answer): string =>
  (headers["set-cookie"] ?? []).map((cookie) => cookie.split(";")[0]).join("; ");
const status = async (cookie: string, headers: Record<string, string> = {}, method = "GET", path = "/health") =>
  (await send(method, path, { cookie, ...headers })).status;

test("who opens a page gets the form, whole in itself; every other request is refused as before", async () => {
  for (const path of ["/", "/ui/squads", "/ui/task/x?tab=changes", "/doc"]) {
    const form = await send("GET", path, navigates);
    expect([path, form.status, form.headers["content-type"], form.headers["www-authenticate"]]).toEqual([
      path,
      401,
      "text/html; charset=utf-8",
      'Form realm="service"',
    ]);
    expect(form.text).toContain(`name="to" value="${path}"`);
    expect(form.text).not.toMatch(/<script|\ssrc=|\shref=|url\(/);
    expect(form.headers["content-security-policy"]).toContain("default-src 'none'");
  }
  expect((await send("GET", "/", { accept: "text/html" })).headers["content-type"]).toContain("text/html");
  const others: [method: string, path: string, headers: Record<string, string>][] = [
    ["GET", "/", {}],
    ["GET", "/", { accept: "*/*" }],
    ["GET", "/", { ...navigates, "sec-fetch-mode": "cors" }],
    ["GET", "/health", navigates],
    ["GET", "/task/x/project-archive", navigates],
    ["GET", "/assets/x.js", navigates],
    ["GET", "/login", navigates],
    ["POST", "/ui", navigates],
    ["POST", "/logout", {}],
    ["GET", "/", { ...navigates, authorization: `Basic ${btoa("service:wrong")}` }],
  ];
  for (const [method, path, headers] of others) {
    const refused = await send(method, path, headers);
    expect([method, path, refused.status, refused.headers["www-authenticate"]]).toEqual([
      method,
      path,
      401,
      'Basic realm="service"',
    ]);
    expect((JSON.parse(refused.text) as { code: string }).code).toBe("unauthorized");
  }
});

test("an address in the form is shown as text, and gone to only where it is a screen", async () => {
  const form = await send("GET", "/ui/'&x?\"><script>alert(1)</script>", navigates);
  expect(form.status).toBe(401);
  expect(form.text).toContain("/ui/&#39;&#38;x?&#34;&#62;&#60;script&#62;");
  expect(form.text).not.toContain("<script>");
  for (const [to, location] of [
    ["/ui/task/x?tab=changes", "/ui/task/x?tab=changes"],
    ["//evil.example", "/"],
    ["/\\evil.example", "/"],
    ["https://evil.example/", "/"],
    ["/ui/x\r\nset-cookie: a=b", "/"],
    ["/health", "/"],
    ["", "/"],
  ]) {
    const answer = await post({ ...right, to: to ?? "" });
    expect([to, answer.status, answer.headers.location]).toEqual([to, 303, location]);
  }
});

test("the right password gives a cookie that counts as it, for twelve hours", async () => {
  const answer = await post(right);
  const [session = "", mark = ""] = answer.headers["set-cookie"] ?? [];
  const { port } = new URL(double.url);
  expect(session).toMatch(new RegExp(`^sortie${port}=[\\w.-]+; Max-Age=43200; HttpOnly; Path=/; SameSite=Strict$`));
  expect(mark).toBe(`sortie${port}-in=1; Max-Age=43140; Path=/; SameSite=Strict`);
  const cookie = cookieOf(answer);
  expect(await status(cookie)).toBe(200);
  expect(await status(`other=1; ${cookie}; more=2`)).toBe(200);
  expect((await send("GET", "/", { ...navigates, cookie })).status).toBe(200);
  now += 12 * hour - 1;
  expect(await status(cookie)).toBe(200);
  now += 1;
  expect(await status(cookie)).toBe(401);
  expect((await send("GET", "/", { ...navigates, cookie })).text).toContain("Log in to Sortie");
  // Over TLS it is for TLS alone.
  const secure = await post(right, double, { origin: double.url.replace("http:", "https:") });
  expect(secure.headers["set-cookie"]?.every((each) => each.endsWith("; Secure"))).toBe(true);
});

test("a changed cookie, one of another host, and one of another password are none", async () => {
  const cookie = cookieOf(await post(right));
  const [name = "", token = ""] = (cookie.split(";")[0] ?? "").split("=");
  const [until = "", nonce = "", signature = ""] = token.split(".");
  const changed = [
    `${Number(until) + 1}.${nonce}.${signature}`,
    `${until}.${nonce.slice(1)}.${signature}`,
    `${until}.${nonce}.${signature.slice(1)}`,
    `${until}.${nonce}.`,
    `${until}..${signature}`,
    `${until}.${signature}`,
    until,
    `${until}.${nonce}.${signature}.x`,
    `1e15.${nonce}.${signature}`,
    "",
  ];
  for (const each of changed) expect([each, await status(`${name}=${each}`)]).toEqual([each, 401]);
  expect(await status(`${name}=${token}`)).toBe(200);
  const host = `localhost:${new URL(double.url).port}`;
  expect(await status(`${name}=${token}`, { host })).toBe(401);
  await using other = await createDouble({ auth: { ...auth, password: "other horses" }, now: () => now });
  const elsewhere = `sortie${new URL(other.url).port}=${token}`;
  expect((await send("GET", "/health", { cookie: elsewhere }, "", other)).status).toBe(401);
  await using open = await createDouble();
  expect((await post(right, open)).status).toBe(404);
});

test("another origin cannot use it, whatever it sends; the service's own page can", async () => {
  const cookie = cookieOf(await post(right));
  const neighbour = "http://127.0.0.1:9999";
  const create = async (headers: Record<string, string>) => status(cookie, headers, "POST", "/task");
  expect(await create({ origin: neighbour })).toBe(403);
  expect(await create({ "sec-fetch-site": "same-site" })).toBe(403);
  expect(await create({})).toBe(401);
  expect(await create({ "sec-fetch-site": "none" })).toBe(401);
  // Controls: past the door, and refused for what was sent.
  expect(await create({ origin: double.url })).toBe(400);
  expect(await create({ "sec-fetch-site": "same-origin" })).toBe(400);
  await using friendly = await createDouble({ auth, now: () => now, allowedOrigins: [neighbour] });
  const own = cookieOf(await post(right, friendly));
  const from = (headers: Record<string, string>) =>
    send("POST", "/task", { cookie: own, ...headers }, "", friendly).then((answer) => answer.status);
  expect([await from({ origin: neighbour }), await from({ origin: friendly.url })]).toEqual([401, 400]);
});

test("a log-out ends it, also for who kept it", async () => {
  const one = cookieOf(await post(right));
  now += 1;
  const second = cookieOf(await post(right));
  expect(await status(one, {}, "POST", "/logout")).toBe(401);
  const out = await send("POST", "/logout", { cookie: one, origin: double.url });
  expect([out.status, out.headers["set-cookie"]?.every((each) => each.includes("=; Max-Age=0"))]).toEqual([204, true]);
  expect([await status(one), await status(second)]).toEqual([401, 200]);
});

test("two log-ins of the same instant are two sessions", async () => {
  const one = cookieOf(await post(right));
  const second = cookieOf(await post(right));
  await send("POST", "/logout", { cookie: one, origin: double.url });
  expect([await status(one), await status(second)]).toEqual([401, 200]);
});

test("a log-out holds over a restart, in a file that opens nothing; control: who did not log out is still there", async () => {
  const endedSessions = join(root.path, "ended-sessions");
  const first = await createDouble({ auth, now: () => now, endedSessions });
  const out = cookieOf(await post(right, first));
  const stays = cookieOf(await post(right, first));
  expect((await send("POST", "/logout", { cookie: out, origin: first.url }, "", first)).status).toBe(204);
  await first.close();
  const kept = readFileSync(endedSessions, "utf8");
  for (const part of (out.split(/[=;]/)[1] ?? "").split(".").slice(1)) expect(kept).not.toContain(part);
  expect(statSync(endedSessions).mode & 0o777).toBe(0o600);
  await using again = await createDouble({ auth, now: () => now, endedSessions });
  // The same name and Host as before, whatever the port.
  const [from, to] = [new URL(first.url), new URL(again.url)];
  const at = (cookie: string) =>
    send("GET", "/health", { cookie, host: from.host }, "", again).then((answer) => answer.status);
  expect(to.port).not.toBe(from.port);
  expect([await at(out), await at(stays)]).toEqual([401, 200]);
});

test("a cookie that another port has put before it does not shut anybody out", async () => {
  const cookie = cookieOf(await post(right));
  const name = cookie.split("=")[0] ?? "";
  expect(await status(`${name}=${now + hour}.x.forged; ${cookie}`)).toBe(200);
  expect(await status(`${name}=${now + hour}.x.forged`)).toBe(401);
  expect(await status(`${`${name}=x; `.repeat(50)}${cookie}`)).toBe(401);
});

test("wrong ones are told so, and after ten in a minute right ones too; what is no form is refused", async () => {
  const wrong = await post({ ...right, password: "guess", to: "/ui/squads" });
  expect([wrong.status, wrong.headers["set-cookie"]]).toEqual([401, undefined]);
  expect(wrong.text).toContain("Wrong name or password.");
  expect(wrong.text).toContain('value="/ui/squads"');
  for (let count = 1; count < 10; count += 1) expect((await post({ ...right, password: "guess" })).status).toBe(401);
  const shut = await post(right);
  expect([shut.status, shut.headers["set-cookie"]]).toEqual([429, undefined]);
  now += 60_000;
  expect((await post(right)).status).toBe(303);
  expect((await post(right, double, { origin: "http://evil.example" })).status).toBe(403);
  expect((await post(right, double, { "content-type": "text/plain" })).status).toBe(415);
  expect((await post({ ...right, to: "x".repeat(9000) })).status).toBe(413);
  expect((await post({})).status).toBe(401);
});
