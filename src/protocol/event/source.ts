/** Whose a message is. */

const serviceSources = ["checks", "contrast", "review", "permissions", "landing", "sources", "output", "node"] as const;
export type ServiceSource = (typeof serviceSources)[number];

/** A source that the service's own messages have; undefined for every other one. */
export const serviceSource = (source: string): ServiceSource | undefined =>
  serviceSources.find((own) => own === source);

/**
 * What a Mission's agent answers to its Tasks, and by what it cancels them; every other source or surface is a
 * person's.
 */
export const missionSource = "mission";

/** Whether a Mission's agent said or did it. Callers name their source as they like, also as this one. */
export const ofMission = (source: string, { byUser }: { byUser?: true }): boolean =>
  byUser !== true && source === missionSource;

/** The mark of a person's answer or cancel under that name. */
export const underMissionName = (source: string): { byUser?: true } =>
  source === missionSource ? { byUser: true } : {};

/**
 * As what the service tells an agent what stands against its work; undefined for a caller's message. Callers name their
 * source as they like, also as the service does.
 */
export const ofService = ({ source, byUser }: { source: string; byUser?: true }): ServiceSource | undefined =>
  byUser === true ? undefined : serviceSource(source);
