import { execFile } from "node:child_process";
import { copyFileSync, chmodSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
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
