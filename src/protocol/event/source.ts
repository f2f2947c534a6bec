/** Tells who wrote a message: the service, a Mission's agent, or a caller. */

const serviceSources = ["checks", "contrast", "review", "permissions", "landing", "sources", "output", "node"] as const;
export type ServiceSource = (typeof serviceSources)[number];

/** Whether a source is one that the service's own messages use; undefined for every other source. */
export const serviceSource = (source: string): ServiceSource | undefined =>
  serviceSources.find((own) => own === source);

/**
 * The source of a Mission's agent when it answers its Tasks, and its surface when it cancels them. Every other source
 * or surface is a person's.
 */
export const missionSource = "mission";

/** Whether a Mission's agent wrote or did something. Callers choose their source freely and may use this one, too. */
export const ofMission = (source: string, { byUser }: { byUser?: true }): boolean =>
  byUser !== true && source === missionSource;

/** The mark (`byUser`) of a person's answer or cancel whose source or surface is the Mission's. */
export const markPerson = (source: string): { byUser?: true } => (source === missionSource ? { byUser: true } : {});

/**
 * The kind of message by which the service tells an agent what stands against its work; undefined for a caller's
 * message. Callers choose their source freely and may use the service's, too.
 */
export const serviceSourceOf = ({ source, byUser }: { source: string; byUser?: true }): ServiceSource | undefined =>
  byUser === true ? undefined : serviceSource(source);
