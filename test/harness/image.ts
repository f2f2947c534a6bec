import { execFileSync } from "node:child_process";
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
import { dirname, join } from "node:path";
import { silent } from "../../src/log.ts";
import { findProgram, type Sandbox } from "../../src/process/sandbox/sandbox.ts";
import { createProcesses } from "../../src/process/service.ts";

/** A small image without a registry, made of this machine's own programs, and an engine that has it. */

const path = process.env["PATH"] ?? "";

const programs =
  "bash sh cat ls env id grep sed sleep mkdir rm touch uname wc head tail true ln cp mv chmod stat ps unshare setsid nohup perl tr sort date cut find xargs dirname basename readlink test printf tee mkfifo mktemp seq".split(
    " ",
  );

const libraries = (file: string): string[] => {
  try {
    return [
      ...execFileSync("ldd", [file], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).matchAll(/\/\S+/g),
    ].map(([found]) => found.replace(/:$/, ""));
  } catch {
    return [];
  }
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
  for (const name of programs) {
    const found = findProgram(name, path);
    if (found === undefined) continue;
    put(found, `usr/bin/${name}`);
    for (const library of libraries(realpathSync(found))) put(library);
  }
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

export const reference = "localhost/small:1";
export const imageID = "5".repeat(64);

/**
 * A podman that has the image, in a folder for the PATH; it writes what it was asked into `asked`. `more`: a script that it
 * runs first, with its arguments.
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
 * The image of the tests: the small one, or of the machine's own podman or docker the one that `TEST_IMAGE` names, which has
 * bash, coreutils, util-linux and perl.
 */
export const imageFor = (folder: string): ImageLab => {
  const named = process.env["TEST_IMAGE"];
  if (named !== undefined) return { env: process.env, reference: named };
  const root = join(folder, "image");
  makeRoot(root);
  return { env: { ...process.env, PATH: `${makeEngine(folder, root).bin}:${path}` }, reference };
};

/** Tier 1 whose every sandbox is over that image. */
export const inImage = async (tier1: Sandbox): Promise<Sandbox> => {
  const folder = mkdtempSync(join(tmpdir(), "sortie-image-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const { env, reference: wanted } = imageFor(folder);
  const options = { folder: join(folder, "data/processes"), runID: folder, keepEnv: env, sandbox: tier1, log: silent };
  const processes = createProcesses({ ...options, images: true });
  const image = await processes.openImage(wanted);
  await processes.stop();
  const { wrap } = tier1;
  return { ...tier1, wrap: wrap && ((request) => wrap({ ...request, image })) };
};
