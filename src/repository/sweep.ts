import { join } from "node:path";
import { hourly } from "../async/hourly.ts";
import { repositoryIdentity } from "../domain/state/project.ts";
import { messageOf } from "../error.ts";
import type { Log } from "../log.ts";
import type { Store } from "../store/store.ts";
import type { Repositories } from "./repository.ts";
import { clearRemoved, type Mirror, mirrorsIn } from "./unused.ts";

const dayMs = 24 * 3_600_000;

/** The mirrors that nobody used for this many days. */
export const unusedMirrors = (dataDir: string, days: number, now: Date, mark = false): Mirror[] =>
  mirrorsIn(join(dataDir, "repositories"), mark).filter(
    ({ usedAt }) => days > 0 && usedAt.getTime() + days * dayMs < now.getTime(),
  );

/**
 * Removes mirrors that nobody used for `days`, a minute after the start and then every hour. Keeps those of
 * repositories with a Task or a Mission, because diffs, archives and the work of failed Tasks are in the mirror, and
 * those with squads that were made for them. `days` 0: removes none.
 */
export const createMirrorSweep = ({
  dataDir,
  repositories,
  store,
  days,
  log,
  now,
}: {
  dataDir: string;
  repositories: Pick<Repositories, "forget">;
  store: Pick<Store, "list" | "missions">;
  days: number;
  log: Log;
  now: () => Date;
}) => {
  const sweep = async (signal: AbortSignal): Promise<void> => {
    await clearRemoved(join(dataDir, "repositories"));
    for (const { url, mirror, squads } of unusedMirrors(dataDir, days, now(), true)) {
      signal.throwIfAborted();
      // Without a record, the mirror's repository is unknown.
      if (!url.includes("://")) continue;
      const project = repositoryIdentity(url);
      const [tasks, missions] = await Promise.all([
        store.list({ project, archived: true, limit: 1 }, signal),
        store.missions({ project, archived: true, limit: 1 }, signal),
      ]);
      if (squads || tasks.length + missions.length > 0 || !repositories.forget(mirror)) continue;
      log.info({ repository: url, days }, "removed the mirror of a repository that has not been used for a long time");
    }
    await clearRemoved(join(dataDir, "repositories"));
  };
  return hourly(
    sweep,
    (error) => log.warn({ error: messageOf(error) }, "unused mirrors could not be removed"),
    days > 0,
  );
};
