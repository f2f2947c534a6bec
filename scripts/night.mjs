// Everything, as `npm run test:night`: first, one after the other, what measures the time that something takes and is
// wrong beside other work, then the rest. With files named it is those.
//   node scripts/night.mjs [file …]
import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

const alone = ["test/security/event-loop/event-loop.test.ts", "test/night/page.test.ts", "test/security/regex.test.ts"];

const vitest = (args) =>
  new Promise((resolve) => {
    const command = [join(root, "node_modules/vitest/vitest.mjs"), "run", "--mode", "night", ...args];
    const child = spawn(process.execPath, command, { cwd: root, stdio: "inherit" });
    child.once("close", (code) => resolve(code ?? 1));
  });

const words = process.argv.slice(2);
const runs = words.length > 0 ? [words] : [["--maxWorkers=1", ...alone], alone.map((file) => `--exclude=${file}`)];
let code = 0;
for (const run of runs) code = Math.max(code, await vitest(run));
process.exitCode = code;
