/**
 * Settings of glibc's malloc for the tests' workers: what was freed goes back to the system, because a spawn costs in
 * proportion to the memory of who starts it. The threshold is below the 64 KiB that a read from a socket takes: those
 * pieces left 230 MB of holes behind, and a run took a sixth more processor time. Read once, when a process begins;
 * others than glibc do not know the names.
 */
export const leanMemory = {
  MALLOC_ARENA_MAX: "1",
  MALLOC_TRIM_THRESHOLD_: "131072",
  MALLOC_MMAP_THRESHOLD_: "32768",
};
