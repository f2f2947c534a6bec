/** Whose a message is. */

const serviceSources = ["checks", "contrast", "review", "permissions", "landing", "sources", "output", "node"] as const;
export type ServiceSource = (typeof serviceSources)[number];

/** A source that the service's own messages have; undefined for every other one. */
export const serviceSource = (source: string): ServiceSource | undefined =>
  serviceSources.find((own) => own === source);

/**
 * As what the service tells an agent what stands against its work; undefined for a caller's message. Callers name their
 * source as they like, also as the service does.
 */
export const ofService = ({ source, byUser }: { source: string; byUser?: true }): ServiceSource | undefined =>
  byUser === true ? undefined : serviceSource(source);
