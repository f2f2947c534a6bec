import { runMain } from "../../src/cli/main.ts";

/** The command line from its source, as a process of its own. */
await runMain(process.argv);
