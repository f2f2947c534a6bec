import type { Repositories } from "../../src/repository/repository.ts";

const none = () => {
  throw new Error("Expected a test without repositories.");
};

/** For services of tests in which every project is a directory. */
export const noRepositories: Repositories = {
  place: none,
  local: none,
  at: () => undefined,
  forget: () => false,
  isFetched: () => false,
  patienceSeconds: 0,
  page: undefined,
  landing: none,
  fetch: none,
  fetchInto: none,
  filledFrom: () => null,
  unfilled: (_, { commit }) => Promise.resolve({ commit }),
  take: none,
  has: none,
  refresh: none,
  packed: none,
  unpack: none,
  branchFor: none,
  ask: none,
  push: none,
  propose: none,
  proposed: none,
  comment: none,
  removeBranch: none,
};
