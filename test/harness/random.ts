/** Random choices that a seed brings again. */
export type Random = { below: (count: number) => number; pick: <T>(from: readonly T[]) => T };

export const seededRandom = (seed: number): Random => {
  let state = seed >>> 0 || 1;
  const below = (count: number) => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % count;
  };
  return { below, pick: (from) => from[below(from.length)] as (typeof from)[number] };
};
