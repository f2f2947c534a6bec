import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { statOf } from "../../src/process/command/kill.ts";
import { processPlace } from "../../src/process/command/process-identity.ts";
import { createScene, picture, prepare, type Scene } from "./fixture.ts";

/**
 * Landings beside a user who works: what is saved meanwhile, and what a dead landing left and the user went on from.
 */

let scene: Scene;
beforeEach(() => {
  scene = createScene();
  scene.sh("git init -q; for f in a b c; do seq 9 > $f; done; git add .; git commit -qm first");
});
afterEach(() => scene[Symbol.asyncDispose]());

/** A Task that changes the last line of a, b and c, and adds a file; planned by one service. */
const planned = async (script = "sed -i s/9/task/ a b c; echo n > new", edit = "true") => {
  const workspaces = scene.service();
  const workspace = await prepare(workspaces, scene.root);
  scene.sh(script, workspace.root);
  const commit = await workspace.commit("work");
  if (commit === undefined) throw new Error("nothing done");
  scene.sh(edit);
  const plan = await workspaces.plan(workspace, commit, commit.parent);
  if ("reason" in plan) throw new Error(`refused: ${JSON.stringify(plan)}`);
  return { workspaces, workspace, commit, plan };
};

const statusOf = () => scene.sh("git status --porcelain -uall");

describe("what a dead landing left", () => {
  /** As if the service had died after a, b and the new file. */
  const half = () => scene.sh("sed -i s/9/task/ a b; echo n > new");

  test("committed by the user: nothing that HEAD has is changed back, the rest is", async () => {
    const { workspace, plan } = await planned();
    half();
    scene.sh("git commit -qam mine");
    const later = scene.service();
    const landed = await later.land(await later.open("task_1", workspace.prepared), plan);
    expect(landed).toMatchObject({ ok: false, reason: expect.stringContaining("refs/heads/main moved to") });
    expect(statusOf()).toBe("");
    expect(scene.sh("tail -qn1 a b c")).toBe("task\ntask\n9\n");
    expect(existsSync(join(scene.root, "new"))).toBe(false);
  });

  test("staged by the user: it stays so, while the branch goes elsewhere", async () => {
    const { workspace, plan } = await planned();
    half();
    scene.sh("git commit -q --allow-empty -m mine; git add a");
    const later = scene.service();
    await later.land(await later.open("task_1", workspace.prepared), plan);
    expect(statusOf()).toBe("M  a\n");
  });

  test("amended after it landed: nothing is changed", async () => {
    const { workspaces, workspace, plan } = await planned();
    await workspaces.land(workspace, plan);
    scene.sh("git commit -q --amend -m 'in my words'");
    const before = picture(scene);
    const later = scene.service();
    expect(await later.land(await later.open("task_1", workspace.prepared), plan)).toMatchObject({ ok: false });
    expect(picture(scene)).toEqual(before);
  });

  test("on a branch that the user has left since: the index is that of where they went; control: on the branch it is finished", async () => {
    // A new file would keep git from leaving.
    const { workspace, plan } = await planned("sed -i s/9/task/ a b c");
    const dying = scene.service({
      onStep: (name) => {
        if (name === "index") throw new Error("killed");
      },
    });
    await expect(dying.land(await dying.open("task_1", workspace.prepared), plan)).rejects.toThrow("killed");
    scene.sh("cp -a ../project ../staying; rm .git/index.lock; git branch -q other HEAD~; git switch -q other");
    const staged = () => scene.sh("git diff --cached --name-only");
    expect(staged()).toBe("");
    const later = scene.service();
    const place = await later.open("task_1", workspace.prepared);
    expect(await later.land(place, plan)).toEqual({ ok: true, kept: [] });
    expect(staged() + picture(scene).leftOver).toBe("");
    scene.sh("cd ..; rm -r project; mv staying project");
    expect(await later.land(place, plan)).toEqual({ ok: true, kept: [] });
    expect(statusOf() + picture(scene).leftOver).toBe("");
  });

  test("control: what nobody made their own is put back", async () => {
    const { workspace, plan } = await planned();
    const before = picture(scene);
    half();
    const later = scene.service();
    const place = await later.open("task_1", workspace.prepared);
    expect(place.root).toBe(workspace.root);
    expect(await later.endLanding("task_1", plan, "given up", "task_1")).toEqual({ ok: false, reason: "given up" });
    expect(picture(scene)).toEqual(before);
  });

  test("its lock is the dead landing's of a Task of this data folder; another's is not", async () => {
    const { workspaces, plan } = await planned();
    const lock = join(scene.root, ".git/index.lock");
    for (const [text, owner] of [
      ["sortie task_1\n", "task_1"],
      ["sortie task_2\n", undefined],
      ["DIRC", undefined],
    ] as const) {
      writeFileSync(lock, text);
      expect(workspaces.unfinishedLanding("task_1"), text).toBe(owner);
    }
    // A lock of somebody else's stays, and what was begun with it is for later.
    half();
    const hasty = scene.service({ lockWaitMs: 20 });
    await expect(hasty.endLanding("task_1", plan, undefined, "task_1")).rejects.toThrow("index.lock");
    expect(readFileSync(lock, "utf8")).toBe("DIRC");
    writeFileSync(lock, "sortie task_1\n");
    expect(await hasty.endLanding("task_1", plan, undefined, "task_1")).toEqual({ ok: true, kept: [] });
    expect(statusOf() + String(existsSync(lock))).toBe("false");
  });

  test("no lock can be made: what changed no file is given up, as far as it came; control: half of it is not", async () => {
    const { workspace, plan } = await planned();
    const before = picture(scene);
    // A folder where its own file is to be, as in a Git directory that became read-only.
    const bar = join(scene.root, ".git/sortie-task_1.lock");
    mkdirSync(bar);
    const later = scene.service();
    await expect(later.land(await later.open("task_1", workspace.prepared), plan)).rejects.toThrow();
    expect(await later.endLanding("task_1", plan, "given up", "task_1")).toEqual({ ok: false, reason: "given up" });
    half();
    await expect(later.endLanding("task_1", plan, "given up", "task_1")).rejects.toThrow("given up");
    rmdirSync(bar);
    expect(await later.endLanding("task_1", plan, "given up", "task_1")).toEqual({ ok: false, reason: "given up" });
    expect(picture(scene)).toEqual(before);
  });

  test("an error between the lock and the first file leaves no lock", async () => {
    const { workspace, plan } = await planned();
    // The user commits after the plan, and git dies when it is asked whether that commit has the Task's.
    scene.sh("git commit -q --allow-empty -m mine");
    const dying = scene.service({
      onSpawn: (args) => {
        if (args[0] === "merge-base") throw new Error("git died");
      },
    });
    await expect(dying.land(await dying.open("task_1", workspace.prepared), plan)).rejects.toThrow("git died");
    expect(picture(scene).leftOver).toBe("");
  });
});

describe("what another service's dead landing left", () => {
  const lock = () => join(scene.root, ".git/index.lock");
  /** A Task of one service whose landing dies in this step, and one of another service in the same project. */
  const two = async (step: string) => {
    const { workspaces, workspace, plan } = await planned("sed -i s/9/task/ a b", "sed -i s/1/mine/ a");
    const mine = picture(scene);
    const dying = scene.service({
      onStep: (name) => {
        if (name === step) throw new Error("killed");
      },
    });
    await expect(dying.land(await dying.open("task_1", workspace.prepared), plan)).rejects.toThrow("killed");
    const other = scene.service({ dataDir: join(scene.base, "other"), lockWaitMs: 20 });
    const own = await prepare(other, scene.root, "task_2");
    return { mine, plan, other, own, workspaces };
  };
  /** The lock as if this process had it. */
  const holdBy = ({ pid, started, place = processPlace }: { pid: number; started: string; place?: string }) => {
    const home = encodeURIComponent(join(scene.dataDir, "worktrees"));
    writeFileSync(lock(), `sortie task_1 ${pid} ${started} ${place} ${home}\n`);
  };
  const dead = () => ({ pid: spawnSync("true").pid, started: "1" });

  test.each(["index", "branch"])(
    "killed before the step %s: carried out, with the bytes that its service keeps",
    async (step) => {
      const { plan, other } = await two(step);
      holdBy(dead());
      expect(other.unfinishedLanding("task_2")).toBe("task_1");
      expect(await other.endLanding("task_1", plan, undefined, "task_2")).toEqual({ ok: true, kept: [] });
      expect(statusOf() + picture(scene).leftOver).toBe(" M a\n");
      expect(scene.sh("sed -n '1p;$p' a; git log -1 --format=%s")).toBe("mine\ntask\nwork\n");
    },
  );

  test("its Task has ended: taken back, with what the user had edited", async () => {
    const { plan, other, mine } = await two("branch");
    holdBy(dead());
    expect(await other.endLanding("task_1", plan, "its Task has ended", "task_2")).toMatchObject({ ok: false });
    expect({ ...picture(scene), index: "" }).toEqual({ ...mine, index: "" });
  });

  test("control: of one that lives, or may live where processes cannot be seen from here, nothing is touched", async () => {
    const { plan, other, own, workspaces } = await two("branch");
    const started = statOf(process.ppid)?.started ?? "";
    for (const by of [
      { pid: process.ppid, started },
      { ...dead(), place: "0".repeat(16) },
    ]) {
      holdBy(by);
      const before = picture(scene);
      expect(other.unfinishedLanding("task_2")).toBeUndefined();
      scene.sh("echo two > b", own.root);
      const commit = await own.commit("two");
      expect(commit && (await other.plan(own, commit, commit.parent))).toMatchObject({
        reason: "gone",
        message: expect.stringContaining("the landing of task_1 holds"),
      });
      expect(picture(scene)).toEqual(before);
    }
    // The service that began it waits for who is at it; what no process here has it may take.
    holdBy({ pid: process.ppid, started });
    await expect(workspaces.endLanding("task_1", plan, undefined, "task_1")).rejects.toThrow("the landing of task_1");
    holdBy({ ...dead(), place: "0".repeat(16) });
    expect(await workspaces.endLanding("task_1", plan, undefined, "task_1")).toEqual({ ok: true, kept: [] });
    expect(picture(scene).leftOver).toBe("");
  });
});

describe("saved while it lands", () => {
  /** Lands with a user who acts before the named step, the first time that it comes; then once more. */
  const landBeside = async (step: string, act: () => void) => {
    const { workspace, commit, plan } = await planned();
    let acted = false;
    const beside = scene.service({
      onStep(name) {
        if (name !== step || acted) return;
        acted = true;
        act();
      },
    });
    const place = await beside.open("task_1", workspace.prepared);
    const first = await beside.land(place, plan);
    const status = statusOf();
    const again = await beside.plan(place, commit, commit.parent);
    if ("reason" in again) throw new Error(`refused: ${JSON.stringify(again)}`);
    return { first, status, again: await beside.land(place, again) };
  };
  const edit = () => scene.sh("sed -i s/1/mine/ b");

  test.each(["file", "lock", "rename", "copy index", "branch"])(
    "before the step %s: taken back, planned anew, and merged",
    async (step) => {
      const { first, status, again } = await landBeside(step, edit);
      if (!first.ok) {
        expect(first).toMatchObject({ edited: ["b"] });
        expect(status).toBe(" M b\n");
      }
      expect(again).toEqual({ ok: true, kept: [] });
      // No reversal: the user's edit alone stands beside the commit.
      expect(scene.sh("git diff -U0 | grep '^[-+][^-+]'")).toBe("-1\n+mine\n");
      expect(scene.sh("head -1 b; tail -1 b")).toBe("mine\ntask\n");
      expect(picture(scene).leftOver).toBe("");
    },
  );

  test("an editor that writes the old file over the new one before the branch is taken: merged, too", async () => {
    const old = readFileSync(join(scene.root, "b"), "utf8");
    const { first } = await landBeside("copy index", () =>
      writeFileSync(join(scene.root, "b"), old.replace("1\n", "mine\n")),
    );
    expect(first).toMatchObject({ ok: false, edited: ["b"] });
    expect(scene.sh("head -1 b; tail -1 b; git diff -U0 | grep '^[-+][^-+]'")).toBe("mine\ntask\n-1\n+mine\n");
  });

  test("what was in the way, and is committed before the change goes back, is not called hidden", async () => {
    const { workspaces, workspace, commit } = await planned();
    scene.sh("sed -i s/9/mine/ b");
    const refused = await workspaces.plan(workspace, commit, commit.parent);
    expect(refused).toEqual({ reason: "dirty", paths: ["b"] });
    scene.sh("git commit -qam mine");
    expect(await workspaces.rebaseWithMarkers(workspace, commit, "work", ["b"])).toMatchObject({
      ok: true,
      paths: ["b"],
      uncommitted: [],
    });
  });

  test("control: nobody saves, and it lands the first time", async () => {
    const { workspaces, workspace, plan } = await planned();
    expect(await workspaces.land(workspace, plan)).toEqual({ ok: true, kept: [] });
    expect(statusOf()).toBe("");
  });

  test("a service that stops while files are prepared has changed nothing, and locked nothing", async () => {
    const { workspace, plan, commit } = await planned();
    const before = picture(scene);
    const stop = new AbortController();
    const seen: string[] = [];
    const stopping = scene.service({
      onStep(name) {
        seen.push(name);
        if (seen.length === 2) stop.abort(new Error("the service stops"));
      },
    });
    const place = await stopping.open("task_1", workspace.prepared);
    const renewed = await stopping.plan(place, commit, commit.parent);
    if ("reason" in renewed) throw new Error("refused");
    expect(await stopping.land(place, renewed, stop.signal)).toMatchObject({ ok: false });
    expect(seen).not.toContain("lock");
    expect(picture(scene)).toEqual(before);
    expect(await stopping.land(place, plan)).toEqual({ ok: true, kept: [] });
  });
});
