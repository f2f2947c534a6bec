import type { Squad } from "../squad.ts";

/** Snapshots of squads without files: those of the configuration, and revisions from before packages existed. */

export const snapshotOf = (squad: Squad): Buffer => Buffer.from(`${plain}${JSON.stringify(squad)}`);

/** The prefix of such a snapshot. */
export const plain = "sortie squad 1\n";
