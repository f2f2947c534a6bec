import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { loadConfig } from "../../../src/config/config.ts";
import { silent } from "../../../src/log.ts";
import { createService } from "../../../src/service/service.ts";
import { makeProject, temporary } from "../../harness/project.ts";

/** What a first screen can offer: where the service was started, where that may be a project. */

test("the folder of the start is offered until it has Tasks; one that is no project is not", async () => {
  using root = temporary("sortie-projects-");
  const here = makeProject(join(root.path, "here"), { "a.txt": "one\n" });
  const bare = join(root.path, "bare");
  mkdirSync(bare);
  const start = (startedIn: string, name: string) =>
    createService(
      loadConfig(
        { port: 0, dataDir: join(root.path, name), startedIn },
        { PATH: process.env["PATH"], HOME: root.path },
      ),
      silent,
    );
  const service = await start(here, "one");
  try {
    const client = createServiceClient({ baseUrl: service.url, directory: here });
    const fresh = { directory: here, repository: null, tasks: 0, active: 0, updated: 0 };
    expect((await client.project.list()).data).toEqual([fresh]);
    const { data } = await client.task.create({ body: { request: "dead links", productPillar: "code" } });
    await client.task.wait({ path: { taskID: data?.taskID ?? "" } });
    expect((await client.project.list()).data).toMatchObject([{ directory: here, tasks: 1 }]);
  } finally {
    await service.close();
  }
  const other = await start(bare, "two");
  try {
    expect((await createServiceClient({ baseUrl: other.url }).project.list()).data).toEqual([]);
  } finally {
    await other.close();
  }
});
