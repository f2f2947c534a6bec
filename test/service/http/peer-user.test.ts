import { execFile } from "node:child_process";
import { copyFileSync, chmodSync } from "node:fs";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { peerUser } from "../../../src/http/guard/peer-user.ts";
import { temporary } from "../../harness/project.ts";
import { startService } from "../../harness/service.ts";

/** SERVICE_SAME_USER: the kernel says whose socket the peer's is. Needs root, to be somebody else for a moment. */

const linuxRoot = process.platform === "linux" && process.getuid?.() === 0;
if (!linuxRoot) process.stderr.write("\n!!! SERVICE_SAME_USER: 1 TEST SKIPPED: needs Linux and root.\n\n");

const nobody = 65_534;

const run = promisify(execFile);

/** The status of /health as another user sees it. */
const statusAs = async (uid: number, node: string, url: string): Promise<string> => {
  const script = `fetch(${JSON.stringify(`${url}/health`)}).then((answer) => console.log(answer.status))`;
  const { stdout } = await run(node, ["-e", script], { uid, env: {}, cwd: "/", timeout: 10_000 });
  return stdout.trim();
};

test.runIf(linuxRoot)(
  "another user is refused, the own and root are not; without it nobody is",
  { timeout: 30_000 },
  async () => {
    using root = temporary("sortie-peer-");
    chmodSync(root.path, 0o755);
    // Where the test's node lies may not be for everybody to enter.
    const node = join(root.path, "node");
    copyFileSync(process.execPath, node);
    {
      await using service = await startService(join(root.path, "a"), { SERVICE_SAME_USER: "1" });
      expect(await statusAs(nobody, node, service.url)).toBe("403");
      expect(await statusAs(0, node, service.url)).toBe("200");
      const refused = await fetch(`${service.url}/health`);
      expect(refused.status).toBe(200);
    }
    await using open = await startService(join(root.path, "b"));
    expect(await statusAs(nobody, node, open.url)).toBe("200");
  },
);

const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const row = (local: string, remote: string, state: string, uid: number, inode = 4711) =>
  `   0: ${local} ${remote} ${state} 00000000:00000000 00:00000000 00000000 ${uid}        0 ${inode} 1 0`;
const ends = { remoteAddress: "127.0.0.1", remotePort: 40_000, localAddress: "127.0.0.1", localPort: 7878 };
const [peer, own] = ["0100007F:9C40", "0100007F:1EC6"];
const mapped = (end: string) => `0000000000000000FFFF0000${end}`;
const found = (rows: string[], rows6: string[] = [], at = ends) =>
  peerUser(at, (path) => [head, ...(path.endsWith("6") ? rows6 : rows)].join("\n"));

test.each([
  ["the peer's own", [row(own, peer, "01", 0), row(peer, own, "01", 1000)], 1000],
  ["the same port of another address", [row("0200007F:9C40", own, "01", 0)], undefined],
  ["the same port to another address", [row(peer, "0200007F:1EC6", "01", 0)], undefined],
  ["another address before the peer's own", [row("0200007F:9C40", own, "01", 0), row(peer, own, "01", 1000)], 1000],
  ["one that waits for its end, which stands there as root's", [row(peer, own, "06", 0, 0)], undefined],
  ["one whose process has closed it", [row(peer, own, "04", 0, 0)], undefined],
  ["one that is half closed", [row(peer, own, "05", 0, 0)], undefined],
  ["one that no process holds", [row(peer, own, "01", 0, 0)], undefined],
  ["one that listens", [row(peer, own, "0A", 0)], undefined],
])("of the connection table: %s", (_name, rows, uid) => expect(found(rows)).toBe(uid));

test("an address of IPv6 is compared whole, and an IPv4 address is found in both tables and both forms", () => {
  const six = { ...ends, remoteAddress: "::1", localAddress: "::1" };
  const one = "00000000000000000000000001000000";
  expect(found([], [row(`${one}:9C40`, `${one}:1EC6`, "01", 7)], six)).toBe(7);
  expect(found([row(peer, own, "01", 7)], [], six)).toBeUndefined();
  expect(found([], [row(mapped(peer), mapped(own), "01", 7)])).toBe(7);
  const dressed = { ...ends, remoteAddress: "::ffff:127.0.0.1", localAddress: "::ffff:127.0.0.1" };
  expect(found([row(peer, own, "01", 7)], [], dressed)).toBe(7);
  expect(found([], [row(mapped(peer), mapped(own), "01", 7)], dressed)).toBe(7);
  expect(found([row("0200007F:9C40", own, "01", 7)], [], dressed)).toBeUndefined();
});

/** Sends one request as another user, from an address and port; what came back begins with the status line. */
const rawAs = async (uid: number, node: string, url: string, bytes: string, from: object = {}): Promise<string> => {
  const at = { host: "127.0.0.1", port: Number(new URL(url).port), ...from };
  const script = `const s = require("net").connect(${JSON.stringify(at)}, () => s.write(${JSON.stringify(bytes)}));
    s.on("error", (error) => console.log(error.code)); let got = "";
    s.on("data", (chunk) => { got += chunk; if (/HTTP.1.1 [2-5]/.test(got)) { console.log(/HTTP.1.1 ([2-5]..)/.exec(got)[1]); s.destroy(); } });`;
  const { stdout } = await run(node, ["-e", script], { uid, env: {}, cwd: "/", timeout: 10_000 });
  return stdout.trim();
};

test.runIf(linuxRoot)("another user gets in by no port of root's, and not by Expect", { timeout: 60_000 }, async () => {
  using root = temporary("sortie-peer-");
  chmodSync(root.path, 0o755);
  const node = join(root.path, "node");
  copyFileSync(process.execPath, node);
  await using service = await startService(join(root.path, "a"), { SERVICE_SAME_USER: "1" });
  const get = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  // Root's own, alive, from 127.0.0.N: the port alone is the same.
  const held = connect({ port: Number(new URL(service.url).port), host: "127.0.0.1", localAddress: "127.0.0.9" });
  await once(held, "connect");
  expect(await rawAs(nobody, node, service.url, get, { localPort: held.localPort })).toBe("403");
  held.destroy();
  const expecting = `POST /task?directory=/p HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}`;
  expect(await rawAs(nobody, node, service.url, expecting)).toBe("403");
  expect(await rawAs(0, node, service.url, expecting)).toBe("400");
});
