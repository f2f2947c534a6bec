import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createSocket } from "node:dgram";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcp } from "node:net";
import { hostname, networkInterfaces } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packageRoot } from "../../../src/package-root.ts";
import { createTask, logOf, makeLab, settledTask } from "../../harness/double/hostile-text.ts";
import type { MockTurn } from "../../harness/double/mock-provider.ts";
import { makeProject, until, writeFiles } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * A list of hosts that a project's commands may reach: what it names works, over the proxy, and nothing else does, by
 * whatever way. The control is the same program in a project whose commands may reach everything.
 */

/** Tries each way in turn, and prints what came of it. Ports are of servers of this test's, outside of the sandbox. */
const program = `
const [host, open, shut, udp, abstract, outside] = process.argv.slice(2);
const net = require("net"), http = require("http"), dgram = require("dgram"), dns = require("dns");
const proxy = process.env.HTTP_PROXY && new URL(process.env.HTTP_PROXY);
const said = {};
const one = (name, begin) => new Promise((done) => {
  const end = (what) => { said[name] ??= what; clearTimeout(timer); done(); };
  const timer = setTimeout(end, 3000, "nothing");
  try { begin(end); } catch (error) { end(error.code ?? error.message); }
});
const direct = (options) => (end) => {
  const socket = net.connect(options, () => { socket.destroy(); end("connected"); });
  socket.on("error", ({ code }) => end("refused"));
};
const through = (port, at, path) => (end) => {
  if (!proxy) return end("no proxy");
  http.get({ host: proxy.hostname, port: proxy.port, path: "http://" + at + ":" + port + path, headers: { host: "other.example" } }, (answer) => {
    let text = "";
    answer.on("data", (chunk) => (text += chunk)).on("end", () => end(answer.statusCode + " " + text.split("\\n")[0]));
  }).on("error", ({ code }) => end(code));
};
const tunnel = (at) => (end) => {
  if (!proxy) return end("no proxy");
  const asking = http.request({ host: proxy.hostname, port: proxy.port, method: "CONNECT", path: at });
  asking.on("connect", (answer, socket) => {
    if (answer.statusCode !== 200) return end(String(answer.statusCode));
    let text = "";
    socket.on("data", (chunk) => (text += chunk)).on("end", () => end("200 " + text.split("\\r\\n")[0]));
    socket.write("GET /tunnel HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n");
  }).on("error", ({ code }) => end(code)).end();
};
(async () => {
  await one("named", through(open, host, "/named"));
  await one("another port", through(shut, host, "/shut"));
  await one("another name of it", through(open, "127.0.0.1", "/name"));
  await one("tunnel", tunnel(host + ":" + open));
  await one("tunnel to another port", tunnel(host + ":" + shut));
  await one("tunnel to metadata", tunnel("169.254.169.254:80"));
  await one("tunnel to IPv6", tunnel("[::1]:" + open));
  await one("tunnel with a trick", tunnel("x@" + host + ":" + shut));
  await one("IPv4", direct({ host: "127.0.0.1", port: open }));
  await one("IPv4 of the machine", direct({ host: outside, port: open }));
  await one("IPv6", direct({ host: "::1", port: open }));
  await one("abstract socket", direct({ path: "\\0" + abstract }));
  await one("DNS", (end) => {
    const resolver = new dns.Resolver({ timeout: 500, tries: 1 });
    resolver.setServers(["127.0.0.1:" + udp]);
    resolver.resolve4("leak.example", (error) => end(error ? error.code : "answered"));
  });
  await one("UDP", (end) => {
    const socket = dgram.createSocket("udp4");
    socket.on("message", () => end("answered")).on("error", ({ code }) => end(code));
    socket.send("leak", udp, "127.0.0.1");
    setTimeout(() => { socket.close(); end("no answer"); }, 800);
  });
  console.log("SAID " + JSON.stringify(said));
})();
`;

const runs = { command: process.execPath, args: [join(packageRoot, "test/fixtures/mcp/hostile.mjs"), "runs"] };

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
const seen: string[] = [];
const datagrams: string[] = [];
const web = () =>
  createServer((request, response) => {
    seen.push(`${request.url} ${request.headers.host}`);
    response.end("hello\n");
  });
const open = web();
const shut = web();
const udp = createSocket("udp4", (message, { port, address }) => {
  datagrams.push(message.toString("latin1"));
  udp.send(message, port, address);
});
const abstract = createTcp((socket) => socket.end());
const abstractName = `sortie-test-${process.pid}`;
const outside =
  Object.values(networkInterfaces())
    .flat()
    .find((found) => found?.family === "IPv4" && !found.internal)?.address ?? "127.0.0.1";
const portOf = (server: { address(): AddressInfo | string | null }) => (server.address() as AddressInfo).port;
const projects: Record<"list" | "none" | "all" | "usual", string> = { list: "", none: "", all: "", usual: "" };

beforeAll(async () => {
  lab = await makeLab();
  for (const server of [open, shut]) await new Promise<void>((resolve) => server.listen(0, "::", resolve));
  await new Promise<void>((resolve) => udp.bind(0, "127.0.0.1", resolve));
  await new Promise<void>((resolve) => abstract.listen(`\0${abstractName}`, resolve));
  const argument = [hostname(), portOf(open), portOf(shut), udp.address().port, abstractName, outside].join(" ");
  for (const name of ["list", "none", "all", "usual"] as const)
    projects[name] = makeProject(lab.folder(), {
      "reach.cjs": program,
      arguments: argument,
      ".gitignore": "node_modules/\n",
    });
  // Commands see it through an overlay, which is mounted around their sandbox.
  writeFiles(projects.list, { "node_modules/a/index.js": "" });
  const config = JSON.parse(readFileSync(lab.config, "utf8")) as object;
  writeFileSync(
    lab.config,
    JSON.stringify({
      ...config,
      sandbox: { paths: [packageRoot] },
      mcpServers: {
        listed: { ...runs, network: [`${hostname()}:${portOf(open)}`] },
        free: { ...runs, network: "all" },
        closed: runs,
      },
      environments: {
        [projects.list]: { network: [`${hostname()}:${portOf(open)}`] },
        [projects.none]: { network: "none", setup: "node reach.cjs $(cat arguments)", setupNetwork: "all" },
        [projects.all]: { network: "all" },
      },
    }),
  );
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
}, 30_000);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  for (const server of [open, shut, abstract]) server.close();
  udp.close();
  await lab[Symbol.asyncDispose]();
});

const shell = (command: string): MockTurn => ({ calls: [{ tool: "shell", input: { command } }] });

const outputsOf = (directory: string, ...commands: string[]): Promise<string[]> =>
  outputsOfCalls(directory, commands.map(shell));

const outputsOfCalls = async (directory: string, calls: MockTurn[]): Promise<string[]> => {
  const check = `test -f node_modules/a/index.js || exit 3; curl -sf -m 5 http://${hostname()}:${portOf(open)}/check`;
  const more =
    directory === projects.list ? { checks: [{ kind: "command", run: check }], landing: "branch" } : { checks: [] };
  const turns = [...calls, { calls: [{ tool: "write", input: { path: "b.txt", content: "b" } }] }];
  const taskID = await createTask(service.url, directory, { ...lab.request(turns), ...more });
  const ended = await settledTask(service.url, taskID, 80_000);
  expect(ended.lifecycleStatus, JSON.stringify(ended.checks)).toBe("completed");
  const log = await logOf(service.url, taskID);
  return log.flatMap(({ type, data }) =>
    type === "tool.finished" ? [typeof data.output === "string" ? data.output : JSON.stringify(data.output)] : [],
  );
};
const reach = "node reach.cjs $(cat arguments)";
const saidIn = (output = ""): unknown => {
  const line = output.split("\n").find((each) => each.startsWith("SAID "));
  return line === undefined ? output : JSON.parse(line.slice("SAID ".length));
};

const nothing = {
  IPv4: "refused",
  "IPv4 of the machine": "refused",
  IPv6: "refused",
  "abstract socket": "refused",
  DNS: expect.not.stringContaining("answered") as string,
  UDP: expect.not.stringContaining("answered") as string,
};

test("what is named is reached, and nothing else, also after the sandbox was emptied", {
  timeout: 90_000,
}, async () => {
  const before = datagrams.length;
  const curl = `curl -s -m 5 http://${hostname()}:${portOf(open)}/curl; curl -s -m 5 -o /dev/null -w '%{http_code}' http://${hostname()}:${portOf(shut)}/curl-shut`;
  const [first, second, third, fourth, way] = await outputsOf(
    projects.list,
    reach,
    curl,
    "kill -9 -1; true",
    `${curl}; for i in 1 2 3 4 5 6 7 8 9 10; do curl -s -m 5 http://${hostname()}:${portOf(open)}/many & done; wait`,
    "ls -d /tmp/sortie-net-* 2>&1; cat /proc/net/unix | wc -l; ps -e 2>/dev/null | grep -c bridge || true",
  );
  expect(saidIn(first)).toEqual({
    ...nothing,
    named: "200 hello",
    "another port": expect.stringMatching(/^403 Sortie: .* is not among the hosts/) as string,
    "another name of it": expect.stringMatching(/^403 /) as string,
    tunnel: "200 HTTP/1.1 200 OK",
    "tunnel to another port": "403",
    "tunnel to metadata": "403",
    "tunnel to IPv6": "403",
    "tunnel with a trick": "403",
  });
  expect(second).toContain("hello\n403");
  expect(third).toBeDefined();
  expect(fourth?.match(/hello/g)).toHaveLength(11);
  expect(way).toContain("No such file");
  expect(datagrams.length).toBe(before);
  expect(seen.some((one) => /shut|name /.test(one))).toBe(false);
  // Which host a request is for is what was judged, not what its header says.
  expect(seen).toContain(`/named ${hostname()}:${portOf(open)}`);
});

/** Processes below this one whose command line has a text, each with those above it, its parent first. */
const ownProcesses = (text: string): { pid: number; above: number[] }[] => {
  const all = new Map<number, { parent: number; line: string }>();
  for (const name of readdirSync("/proc").filter((each) => /^\d+$/.test(each)))
    try {
      const stat = readFileSync(join("/proc", name, "stat"), "latin1");
      const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
      all.set(Number(name), { parent, line: readFileSync(join("/proc", name, "cmdline"), "latin1") });
    } catch {}
  const aboveOf = (pid: number): number[] => {
    const parent = all.get(pid)?.parent ?? 0;
    return parent > 1 ? [parent, ...aboveOf(parent)] : [];
  };
  return [...all]
    .filter(([, { line }]) => line.includes(text))
    .map(([pid]) => ({ pid, above: aboveOf(pid) }))
    .filter(({ above }) => above.includes(process.pid));
};

test.each(["bridge", "runner"] as const)(
  "killed (%s), nothing of it is left, and the next command has a new one",
  {
    timeout: 60_000,
  },
  async (which) => {
    const marker = `4711${which === "bridge" ? 1 : 2}`;
    const asked = outputsOf(
      projects.list,
      `sleep ${marker}`,
      `curl -s -m 5 http://${hostname()}:${portOf(open)}/again`,
    );
    // Only the bridge above this command: an MCP server's sandbox, and one just being removed, have bridges of their
    // own.
    const { sleeping, bridge, runner } = await until(
      () => {
        const [sleep] = ownProcesses(`sleep\0${marker}`);
        const [inner, outer] = ownProcesses("process/network/bridge")
          .filter(({ pid }) => sleep?.above.includes(pid))
          .sort((one, other) => other.above.length - one.above.length);
        return Promise.resolve({ sleeping: sleep?.pid, bridge: inner?.pid, runner: outer?.above[0] });
      },
      (found) => found.runner !== undefined,
      20_000,
    );
    process.kill((which === "bridge" ? bridge : runner) ?? 0, "SIGKILL");
    await until(
      () => Promise.resolve([bridge, sleeping].filter((pid) => existsSync(`/proc/${pid}`))),
      (left) => left.length === 0,
      10_000,
    );
    const [first, second] = await asked;
    expect(first).not.toContain("Exit code 0");
    expect(second).toContain("hello");
  },
);

test("none: nothing is reached, but by the setup that has a network of its own", { timeout: 60_000 }, async () => {
  const before = datagrams.length;
  const [output] = await outputsOf(projects.none, reach);
  expect(saidIn(output)).toMatchObject({ ...nothing, named: "no proxy" });
  // By the setup, which is the control.
  expect(datagrams.length).toBeGreaterThan(before);
});

test("usual: without an environment a project has what the service gives, which here is nothing", {
  timeout: 60_000,
}, async () => {
  const [output] = await outputsOf(projects.usual, reach);
  expect(saidIn(output)).toMatchObject(nothing);
});

test("an MCP server has a list of its own, whatever commands have, and nothing of it stays", {
  timeout: 90_000,
}, async () => {
  const before = datagrams.length;
  const by = (server: string): MockTurn => ({ calls: [{ tool: `mcp__${server}__do`, input: { text: reach } }] });
  const [listed, closed] = await outputsOfCalls(projects.all, [by("listed"), by("closed")]);
  expect(saidIn(listed)).toEqual({
    ...nothing,
    named: "200 hello",
    "another port": expect.stringMatching(/^403 /) as string,
    "another name of it": expect.stringMatching(/^403 /) as string,
    tunnel: "200 HTTP/1.1 200 OK",
    "tunnel to another port": "403",
    "tunnel to metadata": "403",
    "tunnel to IPv6": "403",
    "tunnel with a trick": "403",
  });
  expect(saidIn(closed)).toMatchObject({ ...nothing, named: "no proxy" });
  expect(datagrams.length).toBe(before);
  await until(
    () => Promise.resolve(ownProcesses("hostile.mjs")),
    (left) => left.length === 0,
  );
  const [free] = await outputsOfCalls(projects.none, [by("free")]);
  expect(saidIn(free)).toMatchObject({ IPv4: "connected", UDP: "answered" });
});

test("all, the control: each of these ways leads out", { timeout: 60_000 }, async () => {
  const [output] = await outputsOf(projects.all, reach);
  expect(saidIn(output)).toMatchObject({
    IPv4: "connected",
    "IPv4 of the machine": "connected",
    IPv6: "connected",
    "abstract socket": "connected",
    DNS: expect.any(String) as string,
    UDP: "answered",
    named: "no proxy",
  });
});
