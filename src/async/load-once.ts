/**
 * Loads a value when it is first needed, and keeps it. A failed load is not kept, because its cause may pass, such as
 * too many open files, a full memory or a disk that does not answer: the next call tries again. A value that `isWhole`
 * refuses is not kept either.
 */
export const loadOnce = <T>(load: () => Promise<T>, isWhole?: (value: T) => boolean): (() => Promise<T>) => {
  const kept = new Map<undefined, Promise<T>>();
  return () => keptOrLoaded(kept, undefined, load, isWhole);
};

/** Like `loadOnce`, for one of many keys. `kept` holds the values that are loaded or being loaded. */
export const keptOrLoaded = <K, T>(
  kept: Map<K, Promise<T>>,
  key: K,
  load: () => Promise<T>,
  isWhole: (value: T) => boolean = () => true,
): Promise<T> => {
  const known = kept.get(key);
  if (known !== undefined) return known;
  const loading = load();
  kept.set(key, loading);
  const drop = () => {
    // Another load may have taken its place meanwhile.
    if (kept.get(key) === loading) kept.delete(key);
  };
  loading.then((value) => {
    if (!isWhole(value)) drop();
  }, drop);
  return loading;
};
