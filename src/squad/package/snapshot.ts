import type { Squad } from "../squad.ts";

/** A squad without files as bytes (configuration, and older revisions). */

export const snapshotOf = (squad: Squad): Buffer => Buffer.from(`${plain}${JSON.stringify(squad)}`);

/** What squads were kept as before they were packages, and what those of the configuration still are. */
export const plain = "sortie squad 1\n";
