import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { silent } from "../../src/log.ts";
import { findProgram, type Sandbox } from "../../src/process/sandbox/sandbox.ts";
import { createProcesses } from "../../src/process/service.ts";
import { removeTree } from "../../src/workspace/file/remove-tree.ts";

/** A small image without a registry, made of this machine's own programs, and an engine that has it. */

const path = process.env["PATH"] ?? "";

const programs =
  "bash sh cat ls env id grep sed sleep mkdir rm touch uname wc head tail true ln cp mv chmod stat ps unshare setsid nohup perl tr sort date cut find xargs dirname basename readlink test printf tee mkfifo mktemp seq".split(
    " ",
  );

/** Of all of these, by one program: each is started to say it. */
const libraries = (files: readonly string[]): Set<string> => {
  const { stdout } = spawnSync("ldd", files, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  const found = stdout.split("\n").flatMap((line) => (line.startsWith("/") ? [] : (/\/\S+/.exec(line) ?? [])));
  return new Set(found);
};

/** What an image's maker may put into it, too: links that lead out, rights to run as its owner, a file of passwords. */
export const makeRoot = (root: string, files: Readonly<Record<string, string>> = {}): void => {
  for (const folder of [
    "usr/bin",
    "usr/lib",
    "usr/lib64",
    "usr/local/bin",
    "etc",
    "var/log",
    "var/lib",
    "opt",
    "srv",
    "home/user",
    "tmp",
    "dev",
    "proc",
  ])
    mkdirSync(join(root, folder), { recursive: true });
  for (const name of ["bin", "lib", "lib64"]) symlinkSync(`usr/${name}`, join(root, name));
  const put = (from: string, to = from) => {
    const at = join(root, to);
    if (existsSync(at)) return;
    mkdirSync(dirname(at), { recursive: true });
    copyFileSync(realpathSync(from), at);
    chmodSync(at, 0o755);
  };
  const found = programs.flatMap((name) => findProgram(name, path) ?? []);
  for (const file of found) put(file, `usr/bin/${basename(file)}`);
  for (const library of libraries(found.map((file) => realpathSync(file)))) put(library);
  copyFileSync(join(root, "usr/bin/true"), join(root, "usr/bin/as-owner"));
  chmodSync(join(root, "usr/bin/as-owner"), 0o4755);
  symlinkSync("/etc/hostname", join(root, "etc/resolv.conf"));
  const all = {
    "etc/os-release": "ID=small\n",
    "etc/passwd": "nobody:x:65534:65534::/:/bin/sh\n",
    "etc/shadow": "root:*::::::\n",
    "var/log/of-the-image": "log\n",
    "opt/tool/bin/tool": "#!/bin/bash\necho the tool of the image\n",
    ...files,
  };
  for (const [name, text] of Object.entries(all)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text, { mode: name.includes("/bin/") ? 0o755 : 0o644 });
  }
};

/** git besides, and its libraries, for a container whose Tasks the service itself works on. */
export const withGit = (root: string): void => {
  const from = findProgram("git", path) ?? "";
  const to = join(root, "usr/bin/git");
  copyFileSync(realpathSync(from), to);
  chmodSync(to, 0o755);
  for (const library of libraries([to])) {
    const at = join(root, library);
    if (existsSync(at)) continue;
    mkdirSync(dirname(at), { recursive: true });
    copyFileSync(realpathSync(library), at);
  }
};

export const reference = "localhost/small:1";
export const imageID = "5".repeat(64);

/**
 * A podman that has the image, in a folder for the PATH; it writes what it was asked into `asked`. `more`: a script
 * that it runs first, with its arguments.
 */
export const makeEngine = (folder: string, root: string, more = ""): { bin: string; asked: () => string[] } => {
  const bin = join(folder, "engine-bin");
  mkdirSync(bin);
  const [tar, asked] = [join(folder, "image.tar"), join(folder, "asked")];
  execFileSync("tar", ["-C", root, "-cf", tar, "."]);
  writeFileSync(asked, "");
  const arch = process.arch === "x64" ? "amd64" : process.arch;
  const said = JSON.stringify([
    {
      Id: imageID,
      Os: "linux",
      Architecture: arch,
      Size: 1000,
      Config: {
        Env: [
          "PATH=/opt/tool/bin:/usr/local/bin:/usr/bin:/bin",
          "FLAVOUR=vanilla",
          "LD_PRELOAD=/evil.so",
          "HOME=/root",
        ],
      },
    },
  ]);
  writeFileSync(
    join(bin, "podman"),
    `#!/bin/bash
echo "$*" >> '${asked}'
${more}
case "$1 $2" in
  "image ls") exit 0 ;;
  "image inspect") [ "$3" = ${reference} ] || { echo "no such image" >&2; exit 125; }
    cat <<'END'
${said}
END
    exit 0 ;;
esac
case $1 in
  create | rm) exit 0 ;;
  export) exec cp '${tar}' "$3" ;;
esac
exit 125
`,
    { mode: 0o755 },
  );
  return { bin, asked: () => readFileSync(asked, "utf8").trim().split("\n") };
};

export type ImageLab = {
  /** The environment in which an engine has it. */
  env: Record<string, string | undefined>;
  reference: string;
};

/**
 * The image of the tests: the small one, or of the machine's own podman or docker the one that `TEST_IMAGE` names,
 * which has bash, coreutils, util-linux and perl.
 */
export const imageFor = (folder: string): ImageLab => {
  const named = process.env["TEST_IMAGE"];
  if (named !== undefined) return { env: process.env, reference: named };
  const root = join(folder, "image");
  const made = existsSync(root);
  if (!made) makeRoot(root);
  const bin = made ? join(folder, "engine-bin") : makeEngine(folder, root).bin;
  return { env: { ...process.env, PATH: `${bin}:${path}` }, reference };
};

/** Tier 1 whose every sandbox is over that image. It is unpacked once, also for the processes that a test starts. */
export const inImage = async (tier1: Sandbox): Promise<Sandbox> => {
  const given = process.env["TEST_IMAGE_FOLDER"];
  const folder = given ?? mkdtempSync(join(tmpdir(), "sortie-image-"));
  process.env["TEST_IMAGE_FOLDER"] = folder;
  if (given === undefined) process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const { env, reference: wanted } = imageFor(folder);
  const options = { folder: join(folder, "data/processes"), runID: folder, keepEnv: env, sandbox: tier1, log: silent };
  const processes = createProcesses({ ...options, images: { removeTree } });
  const image = await processes.openImage(wanted);
  await processes.stop();
  const { wrap } = tier1;
  return { ...tier1, wrap: wrap && ((request) => wrap({ ...request, image })) };
};
