import { describe, expect, test } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import { newID } from "../../src/id.ts";
import { hash, nameOf } from "../../src/store/sql/row.ts";
import { created, settled } from "../harness/events.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { backends } from "../harness/store.ts";

/** A repository is one project by its address, also what earlier versions wrote down by the path of its mirror. */

const repository = { url: "https://git.example/team/app.git", ref: null };
const identity = "https://git.example/team/app";
const mirror = "/var/lib/sortie/repositories/app-0123456789ab/mirror.git";
const directory = "/var/lib/sortie/repositories/app-0123456789ab/head";

const mission = (missionID: string, sessionID: string): DomainEvent => ({
  type: "mission.created",
  data: {
    missionID,
    sessionID,
    title: "m",
    titleBy: "service",
    directory,
    project: mirror,
    productPillar: "code",
    model: "builtin/rules-1",
    repository: { ...repository, branch: "sortie/m" },
  },
});

describe.each(backends.filter(({ name }) => name !== "SQLite :memory:"))("$name", ({ open }) => {
  test("lists, Missions and events of a database of before are found by the address; a directory's stay", async () => {
    await using place = await open();
    const task = created({ directory, project: mirror, repository });
    const other = created({ directory: "/work/other", project: "/work/other/.git" });
    const sessionID = newID("ses");
    await place.store.commit({
      appends: [
        // Ended, it has a snapshot.
        { stream: task.data.taskID, expected: 0, events: [task, settled()] },
        { stream: other.data.taskID, expected: 0, events: [other] },
        { stream: sessionID, expected: 0, events: [mission("m1", sessionID)] },
      ],
    });
    const found = async (project: string) => ({
      tasks: (await place.store.list({ project, limit: 10 })).map(({ taskID }) => taskID),
      missions: (await place.store.missions({ project, limit: 10 })).map(({ row }) => row.sessionID),
      named: await place.store.missionsNamed("m1", project),
      events: (await place.store.since(0, 10, { project })).length,
    });
    const all = { tasks: [task.data.taskID], missions: [sessionID], named: [sessionID], events: 3 };
    const none = { tasks: [], missions: [], named: [], events: 0 };
    expect([await found(identity), await found(mirror)]).toEqual([all, none]);

    // As an earlier version had it.
    await place.sql?.(`
      update tasks set project = '${hash(mirror)}' where stream = '${task.data.taskID}';
      update missions set project = '${hash(mirror)}', name = '${nameOf(mirror, "m1")}';
      update snapshots set state = replace(state, '"project":"${identity}"', '"project":"${mirror}"');
      delete from migrations where name = '0007-repositories';`);
    // Control: that is what is found then.
    expect([await found(identity), await found(mirror)]).toEqual([none, all]);

    const store = await place.reopen?.();
    expect([await found(identity), await found(mirror)]).toEqual([all, none]);
    expect((await found("/work/other/.git")).tasks).toEqual([other.data.taskID]);
    expect((await store?.state(task.data.taskID))?.project).toBe(identity);
    expect((await store?.mission(sessionID))?.project).toBe(identity);
    expect((await store?.projects(5))?.find((one) => one.directory === directory)?.repository).toEqual(repository);
  });
});
if (postgresURL === undefined) countSkipped(1);
