import { chmodSync, existsSync, lstatSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { defaultLimits, type Limits } from "../../src/protocol/limit.ts";
import { createProcesses } from "../../src/process/service.ts";
import { processGroupSandbox, type Sandbox } from "../../src/process/sandbox/sandbox.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";
import { createScene, prepare, type Scene } from "./fixture.ts";

/** Dependency folders that Git ignores: a Task's commands have them, and what they lead to is the Task's own tree. */

const here = await sandboxesHere();
const boxed = here.find(({ tier }) => tier === 1);
const names = ["node_modules", ".venv", "venv", "vendor", "target"];

const open: AsyncDisposable[] = [];
afterAll(async () => {
  for (const each of open) await each[Symbol.asyncDispose]();
});

type Own = Scene & { workspaces: ReturnType<Scene["service"]>; again: () => Own };

/** A project with a service that runs commands in this sandbox. */
const sceneIn = (sandbox: Sandbox, more: { names?: string[]; limits?: Partial<Limits> } = {}): Own => {
  const scene = createScene();
  open.push(scene);
  const start = (): Own => {
    const processes = createProcesses({
      folder: join(scene.dataDir, "processes"),
      keepEnv: process.env,
      sandbox,
      log: silent,
    });
    open.unshift({ [Symbol.asyncDispose]: () => processes.stop() });
    const dependencies = { names: more.names ?? names, tier: sandbox.tier };
    const path = process.env["PATH"] ?? "";
    const limits = { ...defaultLimits, ...more.limits };
    return { ...scene, workspaces: scene.service({ processes, dependencies, path, limits }), again: start };
  };
  return start();
};

const run = async (workspace: Workspace, script: string) => {
  const { exitCode, output } = await workspace.run({
    run: script,
    cwd: workspace.root,
    timeoutMs: 20_000,
    keepBytes: 100_000,
    signal: new AbortController().signal,
  });
  return `${exitCode}: ${output}`.trim();
};

/** npm's workspaces and an editable install, as their tools leave them on disk; the user's file says "user". */
const install = ({ root, sh }: Scene) => {
  sh(`git init -q; mkdir -p packages/lib packages/app/node_modules/deep node_modules/@own node_modules/plain src/pkg .venv/lib
    printf 'node_modules/\\n.venv\\n' > .gitignore
    echo "module.exports = 'user'" > packages/lib/index.js
    echo '{"name":"@own/lib","main":"index.js"}' > packages/lib/package.json
    echo "console.log(require('@own/lib'), require('plain'))" > packages/app/main.js
    echo "value = 'user'" > src/pkg/__init__.py
    git add -A; git commit -qm first
    echo "module.exports = 'plain'" > node_modules/plain/index.js
    echo deep > packages/app/node_modules/deep/file
    ln -s ../../packages/lib node_modules/@own/lib
    echo "$PWD/src" > .venv/lib/editable.pth`);
  return root;
};

/** Every entry below with its bytes, mode, size and times. */
const bytesOf = ({ sh }: Scene, folder: string) =>
  sh(
    `find ${folder} -printf '%p %y %m %U %s %T@ %C@ %l\n' | LC_ALL=C sort; find ${folder} -type f -print0 | sort -z | xargs -0 sha1sum`,
  );

const python = `python3 -Bc 'import site; site.addsitedir(".venv/lib"); import pkg; print(pkg.value)'`;

test.skipIf(boxed === undefined)(
  "a workspace package and an editable install resolve to the Task's tree in a sandbox; without it they would be the user's",
  async () => {
    const scene = sceneIn(boxed ?? processGroupSandbox);
    const root = install(scene);
    const before = bytesOf(scene, "node_modules .venv packages/app/node_modules");
    const workspace = await prepare(scene.workspaces, root);
    expect(workspace.dependencies).toEqual(
      expect.arrayContaining([
        { path: ".venv", how: "layer" },
        { path: "node_modules", how: "layer" },
        { path: "packages/app/node_modules", how: "layer" },
      ]),
    );
    expect(workspace.dependencies).toHaveLength(3);
    await workspace.files.write("packages/lib/index.js", "module.exports = 'task'\n");
    await workspace.files.write("src/pkg/__init__.py", "value = 'task'\n");
    expect(await run(workspace, "node packages/app/main.js")).toBe("0: task plain");
    expect(await run(workspace, python)).toBe("0: task");
    expect(await run(workspace, "cat packages/app/node_modules/deep/file")).toBe("0: deep");

    // The control: the same folders linked into the worktree, as it is often done, use the user's files.
    const plain = createScene();
    open.push(plain);
    const worktree = workspace.prepared.worktree ?? "";
    plain.sh(`cp -r ${worktree} linked; cd linked; rm -rf node_modules .venv packages/app/node_modules
      ln -s ${root}/node_modules node_modules; ln -s ${root}/.venv .venv`);
    expect(plain.sh(`cd linked; node packages/app/main.js; ${python}`)).toBe("user plain\nuser\n");

    // Written, deleted, replaced: in the Task alone.
    expect(
      await run(
        workspace,
        "echo new > node_modules/new && rm -r node_modules/plain && echo x >> .venv/lib/editable.pth && git status --porcelain",
      ),
    ).toBe("0:  M packages/lib/index.js\n M src/pkg/__init__.py");
    expect(bytesOf(scene, "node_modules .venv packages/app/node_modules")).toBe(before);

    // In no commit, whatever becomes of the project's patterns.
    await workspace.files.write(".gitignore", "!node_modules/\n");
    const commit = await workspace.commit("work");
    expect(scene.sh(`git show --name-only --format= ${commit?.commit}`)).toBe(
      ".gitignore\npackages/lib/index.js\nsrc/pkg/__init__.py\n",
    );
    await workspace.reset(commit?.commit ?? "");
    expect(await run(workspace, "cat node_modules/new; ls node_modules")).toBe("0: new\n@own\nnew");

    // A sandbox that is opened anew, by another service: the same layer.
    const later = scene.again();
    const opened = await later.workspaces.open("task_1", workspace.prepared, commit?.commit);
    expect(opened.dependencies).toEqual(workspace.dependencies);
    expect(await run(opened, "cat node_modules/new; ls node_modules")).toBe("0: new\n@own\nnew");
    await later.workspaces.remove("task_1");
    expect(scene.sh(`ls ${scene.dataDir}/worktrees`)).toBe("");
    expect(bytesOf(scene, "node_modules .venv packages/app/node_modules")).toBe(before);
  },
  60_000,
);

test.skipIf(boxed === undefined)(
  "what a hostile or odd project has at these names is not mounted, nor what is tracked",
  async () => {
    const scene = sceneIn(boxed ?? processGroupSandbox);
    const { root, sh } = scene;
    sh(`git init -q; mkdir -p vendor/tracked target a/b c
    printf '/node_modules\n.venv\nvendor\ntarget\nvenv\n' > .gitignore
    echo t > vendor/tracked/file; git add -f vendor/tracked; touch a/b/f c/f; git add -A; git commit -qm first
    echo u > vendor/more
    mkdir -p ${scene.base}/secret; echo secret > ${scene.base}/secret/key
    ln -s ${scene.base}/secret node_modules; ln -s / .venv
    echo built > target/out; mkdir venv; echo other > venv/file; chown 65534 venv
    mkdir -p a/b/node_modules; echo kept > a/b/node_modules/not-ignored
    ln -s ${scene.base}/secret c/target`);
    const workspace = await prepare(scene.workspaces, root);
    const link = (path: string) => ({
      path,
      how: "left-out",
      reason: `Expected a folder at "${path}", got a symbolic link`,
    });
    expect(workspace.dependencies.toSorted((a, b) => a.path.localeCompare(b.path))).toEqual([
      link(".venv"),
      link("c/target"),
      link("node_modules"),
      { path: "target", how: "layer" },
      { path: "venv", how: "left-out", reason: "it belongs to the user 65534" },
    ]);
    expect(
      await run(workspace, "cat target/out; find . -name key; ls -A vendor a/b/node_modules; git status --porcelain"),
    ).toBe("0: built\na/b/node_modules:\nnot-ignored\n\nvendor:\ntracked");

    // Replaced by a link after it was given: not followed when the sandbox is opened again.
    sh(`mv target real; ln -s ${scene.base}/secret target`);
    const later = await scene.again().workspaces.open("task_1", workspace.prepared);
    expect(await run(later, "ls -A target")).toBe("0:");
    sh("rm target; mv real target");
    const put = await scene.again().workspaces.open("task_1", workspace.prepared);
    expect(await run(put, "ls -A target")).toBe("0: out");

    // A link of the Task's in its own tree does not lead the mount elsewhere.
    const tree = workspace.prepared.worktree ?? "";
    sh(`rmdir target && ln -s ${scene.base}/secret target`, tree);
    const linked = await scene.again().workspaces.open("task_1", workspace.prepared);
    expect(await run(linked, "cat target/*")).toBe("1: cat: 'target/*': No such file or directory");
    expect(sh(`ls ${scene.base}/secret`)).toBe("key\n");
  },
);

test("elsewhere a folder is copied when it provably leads nowhere else, and left out with the reason when not", async () => {
  const scene = sceneIn(processGroupSandbox);
  const { root, sh } = scene;
  install(scene);
  sh(`mkdir -p vendor/a target; printf 'vendor/\ntarget/\n' >> .gitignore; git commit -qam more
    echo v > vendor/a/file; ln -s a/file vendor/inside; ln -s file vendor/a/dangling
    head -c 3000000 /dev/zero > target/big; printf '%s' "$PWD/src" >> target/big`);
  const before = bytesOf(scene, "vendor target node_modules .venv");
  const workspace = await prepare(scene.workspaces, root);
  const given = (path: string) => workspace.dependencies.find((each) => each.path === path);
  expect(["vendor", "target", "node_modules", ".venv", "packages/app/node_modules"].map(given)).toEqual([
    { path: "vendor", how: "copied" },
    { path: "target", how: "left-out", reason: "target/big contains the project's absolute path" },
    { path: "node_modules", how: "left-out", reason: "node_modules/@own/lib is a link that leads out of it" },
    { path: ".venv", how: "left-out", reason: ".venv/lib/editable.pth contains the project's absolute path" },
    { path: "packages/app/node_modules", how: "copied" },
  ]);
  const said = "cat vendor/inside; readlink vendor/inside; ls -A . packages/app; git status --porcelain";
  expect(await run(workspace, said)).toBe(
    "0: v\na/file\n.:\n.git\n.gitignore\npackages\nsrc\nvendor\n\npackages/app:\nmain.js\nnode_modules",
  );
  expect(
    await run(workspace, "echo task >> vendor/a/file; echo more > vendor/more; printf '!vendor/\n' > .gitignore"),
  ).toBe("0:");
  const commit = await workspace.commit("work");
  expect(scene.sh(`git show --name-only --format= ${commit?.commit}`)).toBe(".gitignore\n");
  await workspace.reset(commit?.commit ?? "");
  expect(await run(workspace, "cat vendor/a/file vendor/more")).toBe("0: v\ntask\nmore");
  expect(bytesOf(scene, "vendor target node_modules .venv")).toBe(before);

  // A Task's tree that is removed and made again has them again, from the project.
  expect(await scene.workspaces.retire("task_1", async () => commit?.commit)).toEqual({ removed: true });
  const again = await scene.again().workspaces.open("task_1", workspace.prepared, commit?.commit);
  expect(again.dependencies).toEqual(workspace.dependencies);
  expect(await run(again, "ls vendor; cat vendor/a/file")).toBe("0: a\ninside\nv");
  await scene.workspaces.remove("task_1");
  expect(sh(`ls ${scene.dataDir}/worktrees`)).toBe("");
});

test("a copy stays below its bounds; names, and a Task in place, decide what is given at all", async () => {
  const small = sceneIn(processGroupSandbox, { limits: { dependencyFiles: 3, dependencyBytes: 10 } });
  small.sh(`git init -q; printf 'node_modules\nvendor\ntarget\n' > .gitignore; git add -A; git commit -qm first
    mkdir node_modules vendor target; touch node_modules/{a,b,c,d}; echo 0123456789 > vendor/file; echo 1 > target/file`);
  const workspace = await prepare(small.workspaces, small.root);
  expect(workspace.dependencies.toSorted((a, b) => a.path.localeCompare(b.path))).toEqual([
    { path: "node_modules", how: "left-out", reason: "it contains more than 3 files" },
    { path: "target", how: "copied" },
    { path: "vendor", how: "left-out", reason: "it contains more than 10 bytes" },
  ]);
  const inPlace = await small.workspaces.prepare({
    taskID: "task_2",
    directory: small.root,
    isolation: "directory",
    landing: "commit",
  });
  expect([inPlace.dependencies, existsSync(join(small.dataDir, "worktrees/task_2.json"))]).toEqual([[], false]);

  const none = sceneIn(processGroupSandbox, { names: [] });
  none.sh("git init -q; echo node_modules > .gitignore; git add -A; git commit -qm first; mkdir node_modules");
  expect((await prepare(none.workspaces, none.root)).dependencies).toEqual([]);
});

test.skipIf(boxed === undefined)(
  "without a kernel or file system for layers a folder is read-only, and says so",
  async () => {
    const scene = sceneIn(boxed ?? processGroupSandbox);
    install(scene);
    // A mount that knows no overlay, first on the path.
    const bin = join(scene.base, "bin");
    mkdirSync(bin);
    writeFileSync(join(bin, "mount"), `#!/bin/bash\n[ "$2" != overlay ] || exit 32\nexec /usr/bin/mount "$@"\n`);
    chmodSync(join(bin, "mount"), 0o755);
    const path = `${bin}:${process.env["PATH"]}`;
    const keepEnv = { ...process.env, PATH: path };
    const processes = createProcesses({
      folder: join(scene.dataDir, "more"),
      keepEnv,
      sandbox: boxed ?? processGroupSandbox,
      log: silent,
    });
    open.unshift({ [Symbol.asyncDispose]: () => processes.stop() });
    const workspaces = scene.service({ processes, dependencies: { names, tier: 1 }, path });
    const workspace = await prepare(workspaces, scene.root);
    const reason = "this file system does not support a writable layer";
    expect(workspace.dependencies.find((each) => each.path === "node_modules")).toEqual({
      path: "node_modules",
      how: "read-only",
      reason,
    });
    expect(await run(workspace, "node packages/app/main.js; touch node_modules/new; rm -r node_modules/plain")).toMatch(
      /^1: user plain\n.*Read-only file system\n.*Read-only file system/,
    );
    expect(lstatSync(join(scene.root, "node_modules/plain/index.js")).isFile()).toBe(true);
  },
);
