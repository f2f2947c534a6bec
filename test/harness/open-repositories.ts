import { silent } from "../../src/log.ts";
import type { Processes } from "../../src/process/process.ts";
import type { Repositories } from "../../src/repository/repository.ts";
import { createRepositories, type RepositoriesOptions, type RepositorySettings } from "../../src/repository/service.ts";
import { type GitHost, token } from "./double/git-host.ts";

/** The service's repositories without the rest of it. */

/** What an operator sets, for a Git host whose repositories may all be worked on. */
export const ofHost = ({ port }: Pick<GitHost, "port">): Pick<RepositorySettings, "allow" | "credentials"> => {
  const match = `http://127.0.0.1:${port}/*`;
  return { allow: [match], credentials: [{ match, token: "env:HOST_TOKEN" }] };
};

export const openRepositories = (
  dataDir: string,
  processes: Processes,
  settings: Partial<RepositorySettings>,
  more: Partial<RepositoriesOptions> = {},
): Repositories =>
  createRepositories({
    dataDir,
    settings: {
      allow: [],
      landing: ["branch", "commit"],
      branch: "sortie/{task}",
      credentials: [],
      pullRequest: { labels: [], draft: false, page: undefined },
      fetchSeconds: 20,
      mirrorBytes: 1e9,
      mirrorDays: 90,
      lfs: false,
      submodules: false,
      ...settings,
    },
    env: { HOST_TOKEN: token },
    tracker: processes.track("service"),
    learn: () => undefined,
    log: silent,
    ...more,
  });
