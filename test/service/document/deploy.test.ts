import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { defaultLimits } from "../../../src/protocol/limit.ts";
import { built } from "../../harness/built.ts";
import { temporary } from "../../harness/project.ts";
import { page } from "./manual.ts";

/** The files in `deploy`, as far as a machine without Docker and without systemd as its first process can hold them. */

const manifest = JSON.parse(page("package.json")) as { files: string[]; engines: { node: string } };
const dockerfile = page("deploy/Dockerfile");

/** Without what is left out of them, and what npm alone reads: the image is made of the lockfile. */
const packed = manifest.files.filter((name) => !name.startsWith("!") && name !== "npm-shrinkwrap.json");

test("the image gets what the package has, and nothing of it is kept from the build", () => {
  const [, moved = ""] = /&& mv (.+) \/app\//.exec(dockerfile) ?? [];
  expect(moved.split(" ").toSorted()).toEqual(["node_modules", "package.json", ...packed].toSorted());
  const ignored = page(".dockerignore")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  const made = ["node_modules", "dist"];
  const needed = [...packed, "package.json", "package-lock.json", "src", "web", "scripts", "tsconfig.build.json"];
  expect(ignored.filter((name) => needed.includes(name) && !made.includes(name))).toEqual([]);
  expect(ignored).toEqual(expect.arrayContaining(made));
});

test("the image stands on one base, which is Node 24 and named by digest", () => {
  expect([...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, base]) => base)).toEqual(["${NODE_IMAGE}", "${NODE_IMAGE}"]);
  expect(dockerfile).toMatch(/^ARG NODE_IMAGE=node:24\.\d+\.\d+-bookworm-slim@sha256:[0-9a-f]{64}$/m);
  // What looks at the base that somebody named, run here: our own Node passes, an older one would not.
  const [, script = ""] = /^RUN node -e '(.+)'$/m.exec(dockerfile) ?? [];
  const run = (version: string) =>
    spawnSync(process.execPath, ["-e", script.replaceAll("process.version", JSON.stringify(version))], {
      encoding: "utf8",
    });
  expect(run("v24.21.0").status).toBe(0);
  expect(run("v22.18.0").stderr).toContain("Expected Node 24 in NODE_IMAGE, got v22.18.0.");
});

type Compose = {
  services: Record<
    string,
    { image: string; environment?: Record<string, string | null>; volumes?: string[] } & Record<string, unknown>
  >;
  volumes: Record<string, unknown>;
};

test("the nodes of compose.yaml differ in name and volume alone, are those of nginx.conf, and have the time to drain", () => {
  const { services, volumes } = parse(page("deploy/compose.yaml"), { merge: true }) as Compose;
  const nodes = Object.entries(services).filter(([, { image }]) => image === "sortie");
  expect(nodes.map(([name]) => name)).toEqual(["node-a", "node-b", "node-c"]);
  const alike = nodes.map<Record<string, unknown>>(([name, { environment = {}, volumes: own = [], ...rest }]) => {
    expect([environment["SERVICE_NODE"], own]).toEqual([name.replace("node-", ""), [`${name}:/data`]]);
    expect(environment["SERVICE_NODE_URL"]).toBe(`http://${name}:7879`);
    return { ...rest, environment: { ...environment, SERVICE_NODE: "", SERVICE_NODE_URL: "" } };
  });
  expect(alike).toEqual(alike.map(() => alike[0]));
  expect(alike[0]).toMatchObject({ read_only: true, init: true, environment: { SERVICE_BLOBS: "database" } });
  expect(Number.parseInt(String(alike[0]?.["stop_grace_period"]), 10)).toBeGreaterThan(defaultLimits.drainSeconds + 10);
  for (const name of ["database", ...nodes.map(([each]) => each)]) expect(Object.keys(volumes)).toContain(name);
  const upstream = [...page("deploy/nginx.conf").matchAll(/server (node-\w):7878/g)].map(([, name]) => name);
  expect(upstream).toEqual(nodes.map(([name]) => name));
});

/** The mounts of a node in `compose.yaml`: nothing can be written but a volume and /tmp. */
const readOnly = `
  mount -t tmpfs none /mnt; mount -t tmpfs -o mode=1777 none /tmp
  mount -o remount,ro,bind /
  for folder in /var/tmp /root "$HOME"; do if touch "$folder/sortie-probe" 2>/dev/null; then rm -f "$folder/sortie-probe"; exit 9; fi; done
  HOME=/nowhere SERVICE_DATA_DIR=/mnt/data SERVICE_PORT=0 timeout 30 "$1" "$2" serve > /mnt/said 2>&1 & service=$!
  for _ in $(seq 150); do grep -q listening /mnt/said && break; kill -0 $service 2>/dev/null || break; sleep 0.2; done
  kill $service 2>/dev/null; wait $service; cat /mnt/said`;

test("a node starts where only its volume and /tmp can be written, as compose.yaml has it", async (context) => {
  const { services } = parse(page("deploy/compose.yaml"), { merge: true }) as Compose;
  expect(services["node-a"]).toMatchObject({
    read_only: true,
    tmpfs: ["/tmp:exec,mode=1777"],
    volumes: ["node-a:/data"],
  });
  await built();
  const who = process.getuid?.() === 0 ? [] : ["--user", "--map-root-user"];
  const script = fileURLToPath(new URL("../../../bin/sortie.js", import.meta.url));
  const { status, stdout } = spawnSync(
    "unshare",
    [...who, "--mount", "bash", "-c", readOnly, "bash", process.execPath, script],
    { encoding: "utf8" },
  );
  if (status !== 0) context.skip("mounts cannot be made here");
  expect(stdout).toContain("listening on http://127.0.0.1:");
});

const verifies = spawnSync("systemd-analyze", ["--version"]).status === 0;
if (!verifies) console.warn("SKIPPED: the unit is verified by systemd-analyze, which is not here.");

test.runIf(verifies)("the unit is one that systemd reads without a word", () => {
  using folder = temporary("sortie-unit-");
  const unit = page("deploy/sortie.service").replace("/usr/local/bin/sortie", process.execPath);
  const verify = (text: string): string => {
    const file = join(folder.path, "sortie.service");
    writeFileSync(file, text);
    const { stdout, stderr } = spawnSync("systemd-analyze", ["verify", file], { encoding: "utf8" });
    return stdout + stderr;
  };
  expect(verify(unit)).toBe("");
  expect(verify(unit.replace("KillMode=mixed", "KillMode=mixd"))).toContain("kill mode");
  // What bounds the commands together, and what they may not leave behind.
  for (const setting of [
    "MemoryMax=75%",
    "TasksMax=16384",
    "RestrictSUIDSGID=yes",
    "KeyringMode=private",
    "Type=notify",
    "NotifyAccess=all",
    "WatchdogSec=60",
    "WatchdogSignal=SIGKILL",
  ]) {
    expect(unit.split("\n")).toContain(setting);
    expect(verify(unit.replace(`\n${setting}\n`, `\n${setting.replace(/=.*/, "=perhaps")}\n`))).not.toBe("");
  }
  // Started again however often it fails: systemd gives up after five starts within ten seconds.
  const [, rest] = /^RestartSec=(\d+)$/m.exec(unit) ?? [];
  expect(Number(rest) * 4).toBeGreaterThan(10);
  expect(unit).not.toMatch(/^StartLimit/m);
  // What bubblewrap needs is not taken away.
  expect(unit).not.toMatch(/^(RestrictNamespaces|ProtectKernelTunables|ProtectKernelLogs|ProtectProc|PrivateUsers)=/m);
});

test.runIf(verifies)(
  "the unit of a node is that of a service, with a name and a folder of its own, and the time to drain",
  () => {
    using folder = temporary("sortie-unit-");
    const lines = (file: string) =>
      page(file)
        .split("\n")
        .filter((line) => !line.startsWith("#"));
    const [one, node] = [lines("deploy/sortie.service"), lines("deploy/sortie@.service")];
    expect(node.filter((line) => !one.includes(line))).toEqual([
      "Description=Sortie, node %i",
      "StateDirectory=sortie/%i",
      "Environment=SERVICE_NODE=%i SERVICE_DATA_DIR=/var/lib/sortie/%i",
      "EnvironmentFile=-/etc/sortie/%i.env",
      expect.stringMatching(/^TimeoutStopSec=/),
    ]);
    const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(node.join("\n")) ?? [];
    expect(Number(seconds)).toBeGreaterThan(defaultLimits.drainSeconds + 10);
    const file = join(folder.path, "sortie@a.service");
    writeFileSync(file, page("deploy/sortie@.service").replace("/usr/local/bin/sortie", process.execPath));
    const { stdout, stderr } = spawnSync("systemd-analyze", ["verify", file], { encoding: "utf8" });
    expect(stdout + stderr).toBe("");
  },
);
