import type { Recorded } from "../domain/event.ts";
import { frameOf, missionFlowOf } from "../domain/flow.ts";
import type { MissionState } from "../domain/mission/mission.ts";
import { rowOf } from "../domain/mission/status.ts";
import type { MissionStatus } from "../protocol/mission.ts";
import { mapStrings } from "../redact.ts";
import type { Store } from "../store/store.ts";
import type { Archiver } from "../task/archive.ts";
import { messagesIn } from "../task/reads.ts";
import type { ArchiveFile } from "../task/tasks.ts";

/** A Mission's project archive: its project's tracked files, its own flow, and the flow of each of its Tasks. */
export const createMissionArchive =
  ({ store, archiver, redact }: { store: Store; archiver: Archiver; redact: (text: string) => string }) =>
  async (state: MissionState, status: MissionStatus, signal: AbortSignal): Promise<ArchiveFile> => {
    const { missionID, sessionID, directory } = state;
    const [recorded, { messages }] = await Promise.all([
      eventsOf(store, state),
      messagesIn(store, sessionID, { after: 0, limit: Number.MAX_SAFE_INTEGER }),
    ]);
    const flow = missionFlowOf({
      mission: mapStrings({ ...rowOf(state), directory, project: state.project, tasks: state.tasks }, redact),
      // The Mission's own last change stands for the present.
      status: mapStrings({ ...status, generatedAt: state.updatedAt }, redact),
      messages: mapStrings(messages, redact),
      events: recorded.map((event) => frameOf(mapStrings(event, redact), missionID)),
    });
    const tasks = state.tasks.map(({ taskID }) => taskID);
    return archiver.ofMission({ missionID, sessionID, directory, flow, tasks }, signal);
  };

const eventsOf = async (store: Store, { sessionID, version }: MissionState): Promise<Recorded[]> => {
  const events: Recorded[] = [];
  while (events.length < version) {
    const page = await store.read(sessionID, { after: events.length, limit: Math.min(1000, version - events.length) });
    if (page.length === 0) break;
    events.push(...page);
  }
  return events;
};
