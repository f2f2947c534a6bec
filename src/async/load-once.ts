/**
 * What is loaded when it is first needed, and then kept. A load that failed is not: too many open files, a full memory
 * and a disk that does not answer pass, and the next call tries again. Nor is what `isWhole` refuses.
 */
export const loadOnce = <T>(load: () => Promise<T>, isWhole?: (value: T) => boolean): (() => Promise<T>) => {
  const kept = new Map<undefined, Promise<T>>();
  return () => keptOrLoaded(kept, undefined, load, isWhole);
};

/** The same for one of many. `kept` holds what is there or on its way. */
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
