import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { answers, freePort } from "../port.ts";
import { until } from "../project.ts";

/** A real sshd on loopback, into which this machine's user logs in with a key. */

const program = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].find((path) => existsSync(path));

export const canServeSsh = program !== undefined;

if (!canServeSsh)
  process.stderr.write("No sshd here: the tests of repositories by ssh are SKIPPED (Debian: openssh-server).\n");

export type SshServer = AsyncDisposable & {
  user: string;
  port: number;
  /** A key that may log in, and one that may not. */
  key: string;
  otherKey: string;
  /** The server's public key: `type base64`. */
  hostKey: string;
};

export const startSshServer = async (folder: string): Promise<SshServer> => {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const keyOf = (name: string): string => {
    const path = join(folder, name);
    execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", path]);
    return path;
  };
  const [host, key, otherKey] = [keyOf("host"), keyOf("client"), keyOf("other")];
  writeFileSync(join(folder, "authorized"), readFileSync(`${key}.pub`));
  // Only an sshd of root's insists on it; a package's start script makes it otherwise.
  if (process.getuid?.() === 0) mkdirSync("/run/sshd", { recursive: true, mode: 0o755 });
  const port = await freePort();
  const config = join(folder, "sshd_config");
  const lines = [
    `Port ${port}`,
    "ListenAddress 127.0.0.1",
    `HostKey ${host}`,
    `AuthorizedKeysFile ${join(folder, "authorized")}`,
    "PidFile none",
    "StrictModes no",
    "UsePAM no",
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
  ];
  writeFileSync(config, `${lines.join("\n")}\n`);
  const child = spawn(program ?? "", ["-D", "-e", "-f", config], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  await until(
    async () => child.exitCode !== null || (await answers(port)),
    (is) => is,
    10_000,
  );
  if (child.exitCode !== null) throw new Error(`sshd ended: ${said}`);
  const [type, base64] = readFileSync(`${host}.pub`, "utf8").split(" ");
  return {
    user: userInfo().username,
    port,
    key,
    otherKey,
    hostKey: `${type} ${base64}`,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await gone;
    },
  };
};
