import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { createLocalEngine } from "../../src/engine/in-process.ts";
import { createSlots } from "../../src/engine/slot.ts";
import { silent } from "../../src/log.ts";
import type { Model } from "../../src/model/model.ts";
import { createProcesses } from "../../src/process/service.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { createCatalog } from "../../src/squad/catalog/catalog.ts";
import { createSquads } from "../../src/squad/revision.ts";
import { createCheckResults } from "../../src/store/check-result.ts";
import type { Disk } from "../../src/store/disk/disk.ts";
import { createDiskSync, type DiskSync } from "../../src/store/sqlite/disk-sync.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { createTasks } from "../../src/task/service.ts";
import type { Tasks } from "../../src/task/tasks.ts";
import { createRunTask } from "../../src/task/worker/run.ts";
import { createWorkspaces } from "../../src/workspace/service.ts";
import type { Workspaces } from "../../src/workspace/workspace.ts";
import { noRepositories } from "./repositories.ts";
import { endlessDisk } from "./disk.ts";

export type TaskService = {
  store: Store;
  tasks: Tasks;
  /** Leaves everything as kill -9 would: nothing is released. */
  crash(): Promise<void>;
};

export type TaskServiceOptions = {
  folder: string;
  model: Model;
  disk?: Disk;
  /** How the database waits for its disk. */
  sync?: (file: string) => DiskSync;
  maxRunning?: number;
  /** Puts something of the test's before the real ones. */
  before?: { store?: (store: Store) => Store; workspaces?: (workspaces: Workspaces) => Workspaces };
};

/** Everything of a service but HTTP, over a folder. */
export const openTaskService = async (options: TaskServiceOptions): Promise<TaskService> => {
  const { folder, model, disk = endlessDisk, sync = createDiskSync, maxRunning = 100, before = {} } = options;
  const same = <T>(value: T): T => value;
  const file = join(folder, "sortie.db");
  const database: Store = await createSqliteStore({ file, dataDir: folder, log: silent, disk: sync(file) });
  const store = (before.store ?? same)(database);
  const engine = createLocalEngine({ store, maxRunning, log: silent });
  disk.onPause((pauses) => engine.pause(pauses));
  const processes = createProcesses({ folder: join(folder, "processes"), keepEnv: process.env, log: silent });
  disk.onPause((pauses) => processes.hold(pauses));
  await processes.endLeftovers();
  const workspaces = (before.workspaces ?? same)(
    createWorkspaces({ dataDir: folder, projectRoots: [], processes, limits: defaultLimits, log: silent }),
  );
  const squads = createSquads(store.blobs, createCatalog({ dataDir: folder, external: [] }));
  const now = () => new Date();
  const shared = {
    store,
    workspaces,
    repositories: noRepositories,
    squads,
    disk,
    limits: defaultLimits,
    log: silent,
    now,
  };
  const tasks: Tasks = createTasks({
    inspect: (directory) => workspaces.inspect(directory),
    inspectNew: (directory) => workspaces.inspect(directory),
    ...shared,
    engine,
    resolveModel: () => model.ref,
    archive: () => Promise.reject(new Error("not part of this test")),
    callback: (url) => ({ url, shown: url }),
    defaults: { squad: "base", landing: "commit" },
    captures: {
      browser: () => ({ program: undefined, bare: false }),
      slots: createSlots(1),
      network: true,
      tier: 3,
      environment: async () => undefined,
      processes: { setEnvironment: () => ({ [Symbol.dispose]: () => {} }) },
    },
  });
  engine.start(
    createRunTask({
      suspects: { isAlone: () => false, clear: () => undefined },
      ...shared,
      engine,
      processes,
      manager: {
        validate: () => Promise.reject(new Error("not part of this test")),
        install: () => Promise.reject(new Error("not part of this test")),
        expectInstallable: () => Promise.reject(new Error("not part of this test")),
      },
      externals: {},
      mcpServers: {},
      diagnostics: { enabled: false, room: () => undefined },
      granted: () => false,
      environments: { containers: false, of: () => undefined, secrets: async () => ({}) },
      variable: () => undefined,
      setup: undefined,
      models: { load: async () => model, fallbackModel: async () => undefined },
      slots: createSlots(4),
      backgroundSlots: createSlots(1),
      checkResults: createCheckResults(join(folder, "checks"), now, silent),
      browser: () => ({ program: undefined, bare: false }),
      web: undefined,
      permissions: { deny: [], ask: [], allow: [] },
      sandbox: { tier: 3, name: "process-group", network: true },
      worker: `test/${randomUUID()}`,
      recorded() {},
    }),
  );
  return {
    store,
    tasks,
    async crash() {
      // The database goes first, so that nothing the dying handlers still say is kept.
      await database[Symbol.asyncDispose]();
      await engine[Symbol.asyncDispose]();
    },
  };
};
