import { connect, type Target } from "../connection.ts";
import { targetAt } from "../target.ts";
import { line as flat } from "../terminal/format.ts";

/**
 * `sortie completion-ids`: prints ids for the completion scripts, one per line: id, tab, description. Prints nothing
 * when anything goes wrong.
 */

/** Milliseconds; the user's shell is blocked until the ids are printed. */
const patienceMs = 300;

export const printIDs = async (
  kind: "tasks" | "missions" | "squads",
  line: string,
  own: Pick<Target, "url" | "username" | "password">,
): Promise<void> => {
  const valueOf = (pattern: RegExp) => pattern.exec(line)?.[1]?.replaceAll(/^["']|["']$/g, "");
  const target = {
    ...targetAt(valueOf(/\s--url[\s=]+(\S+)\s/) ?? own.url, own),
    directory: valueOf(/\s(?:-C|--directory)[\s=]*(\S+)\s/) ?? ".",
  };
  try {
    const found = await idsOf(kind, target, AbortSignal.timeout(patienceMs));
    process.stdout.write(found.map(([id, title]) => `${id}\t${flat(title, 60)}\n`).join(""));
  } catch {
    // An invalid address: there is nothing to offer.
  }
};

const idsOf = async (kind: "tasks" | "missions" | "squads", target: Target, signal: AbortSignal) => {
  const service = connect(target);
  switch (kind) {
    case "tasks": {
      const { data = [] } = await service.task.list({ query: { limit: 50 }, signal });
      return [
        ...(data.length === 0 ? [] : [["@last", "the newest Task"]]),
        ...data.map(({ taskID, title }) => [taskID, title]),
      ] as [string, string][];
    }
    case "missions": {
      const { data = [] } = await service.mission.list({ query: { limit: 50 }, signal });
      return data.map(({ missionID, title }): [string, string] => [missionID, title]);
    }
    case "squads": {
      const { data } = await service.squad.list({ signal });
      return (data?.squads ?? []).map(({ id, summary }): [string, string] => [id, summary]);
    }
  }
};
