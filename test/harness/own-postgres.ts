import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Client } from "pg";
import { freePort } from "./port.ts";
import { temporary, until } from "./project.ts";

/** A PostgreSQL of the test's own, which can be stopped and started. */
export type OwnPostgres = AsyncDisposable & {
  url: string;
  /**
   * `fast`: all sessions are ended, as by `pg_ctl stop`. `immediate`: as after a crash, and it recovers at its start.
   */
  stop(mode: "fast" | "immediate"): Promise<void>;
  start(): Promise<void>;
};

/** Debian keeps the server's programs away from PATH. */
const binaries = (): string | undefined => {
  const folders = ["/usr/lib/postgresql", "/usr/pgsql"].flatMap((root) => {
    try {
      return readdirSync(root).map((version) => join(root, version, "bin"));
    } catch {
      return [];
    }
  });
  const newest = folders.toSorted((one, other) => other.localeCompare(one, undefined, { numeric: true }));
  return newest.find((folder) => readdirSync(folder).includes("initdb"));
};

/** It refuses to run as root. undefined: as whoever runs the test. */
const runsAs = (): { uid: number; gid: number } | undefined => {
  if (process.getuid?.() !== 0) return undefined;
  const id = (what: string) => Number(execFileSync("id", [what, "postgres"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
};

/** undefined, and a line that says so, where PostgreSQL's programs are not installed. */
export const startOwnPostgres = async (): Promise<OwnPostgres | undefined> => {
  const folder = binaries();
  if (folder === undefined) {
    console.warn("No programs of PostgreSQL here (initdb): its stops are cuts of all ways to the one that runs.");
    return undefined;
  }
  const who = runsAs();
  const own = temporary("sortie-postgres-");
  const home = own.path;
  if (who !== undefined) chownSync(home, who.uid, who.gid);
  const data = join(home, "data");
  const as = { ...who, cwd: home, env: { PATH: process.env["PATH"], LC_ALL: "C" } };
  execFileSync(join(folder, "initdb"), ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"], {
    ...as,
    stdio: "pipe",
  });
  const port = await freePort();
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  let server: ChildProcess | undefined;
  const answers = async (): Promise<boolean> => {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 1000 });
    client.on("error", () => {});
    try {
      await client.connect();
      return true;
    } catch {
      return false;
    } finally {
      await client.end().catch(() => {});
    }
  };
  const postgres: OwnPostgres = {
    url,
    async start() {
      // What is written stays with the system when the server dies: nothing here stops the machine.
      const set = [
        "port",
        String(port),
        "listen_addresses",
        "127.0.0.1",
        "unix_socket_directories",
        "",
        "fsync",
        "off",
      ];
      const options = set.flatMap((word, at) => (at % 2 === 0 ? ["-c", `${word}=${set[at + 1]}`] : []));
      server = spawn(join(folder, "postgres"), ["-D", data, ...options], { ...as, stdio: "ignore" });
      await until(answers, (yes) => yes, 30_000);
    },
    async stop(mode) {
      const child = server;
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
      const gone = new Promise((resolve) => child.once("exit", resolve));
      // The postmaster's signals: SIGINT is a fast shutdown, SIGQUIT an immediate one.
      child.kill(mode === "fast" ? "SIGINT" : "SIGQUIT");
      await Promise.race([gone, pause(20_000, undefined, { ref: false }).then(() => child.kill("SIGQUIT"))]);
      await gone;
    },
    async [Symbol.asyncDispose]() {
      await postgres.stop("immediate");
      own[Symbol.dispose]();
    },
  };
  await postgres.start();
  return postgres;
};
