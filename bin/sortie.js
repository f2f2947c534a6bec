#!/usr/bin/env node
// The command, and for `serve` the service process itself: no wrapper child. Plain JavaScript in syntax that any Node
// since 14 parses, so that an old one gets a sentence and not a stack.
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  process.stderr.write(
    `sortie: expected Node 22.18 or newer, got ${process.versions.node}. ` +
      "Install Node 24 from https://nodejs.org, or in a clone of the project use `npm start`, `npm run demo`.\n",
  );
  process.exit(78);
}

const start = async () => {
  // Without `import`, for which Node would load all that these have (scripts/build.mjs).
  const [
    { existsSync, statSync },
    { enableCompileCache },
    { homedir },
    { join },
    { fileURLToPath },
    { setFlagsFromString },
  ] = ["fs", "module", "os", "path", "url", "v8"].map((name) => process.getBuiltinModule(`node:${name}`));
  // V8 may end the process when it frees a wrapper that it has replaced by a quicker one ("Check failed:
  // jit_page.has_value()"), as it does within `fetch`, whose parser is WebAssembly: none is replaced.
  setFlagsFromString("--no-wasm-generic-wrapper");
  // What the build compiled ahead. Node keeps it by user, so another one's is of no use. Node's default lies in the common
  // temporary folder, where another user could have put something.
  const ahead = fileURLToPath(new URL("../dist/.compiled", import.meta.url));
  const isOwn = existsSync(ahead) && statSync(ahead).uid === process.getuid?.();
  enableCompileCache(isOwn ? ahead : join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "sortie"));
  const main = new URL("../dist/cli/main.js", import.meta.url);
  if (!existsSync(main)) {
    process.stderr.write("sortie: dist is not built. Run `npm run build` first.\n");
    process.exit(78);
  }
  const { runMain } = await import(main.href);
  await runMain(process.argv);
};

await start();
