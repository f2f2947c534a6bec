import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { silent } from "../../src/log.ts";
import { createProcesses } from "../../src/process/service.ts";
import { containerHere } from "../harness/container.ts";
import { inImage } from "../harness/image.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";
import { leaving } from "./forms.ts";

/**
 * A service as far as its commands go, to be killed: `survivor-owner.ts <tier|image|container> <folder> <run|talk>
 * <token>`. It runs a command that leaves everything, and stops in good order on SIGTERM.
 */

const [tier = "1", folder = "", kind = "run", token = ""] = process.argv.slice(2);
const here = await sandboxesHere();
const [first] = here;
const sandbox =
  tier === "container"
    ? await containerHere(join(folder, "data"), folder)
    : tier === "image" && first !== undefined
      ? await inImage(first)
      : here.find((each) => each.tier === Number(tier));
const tree = join(folder, "tree");
mkdirSync(tree, { recursive: true });
const processes = createProcesses({
  folder: join(folder, "processes"),
  runID: folder,
  keepEnv: process.env,
  ...(sandbox === undefined ? {} : { sandbox }),
  log: silent,
});
process.stdout.write("ready\n");
const { signal } = new AbortController();
const place = { tree, at: tree, under: () => [], over: () => [] };
const run = `${leaving(token)}\nsleep 600`;
process.once("SIGTERM", () => void processes.stop().then(() => process.exit(0)));
if (kind === "run")
  void processes.run("task_a", { run, cwd: tree, timeoutMs: 600_000, keepBytes: 1000, signal }, place);
else await processes.startInteractive("task_a", tree, { run, env: {}, home: undefined, network: false, signal }, place);
setInterval(() => {}, 1000);
