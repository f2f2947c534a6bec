import { useSearch } from "@tanstack/react-router";
import { allProjects, isAddress } from "./place.ts";
import { recentProjects } from "./settings.ts";

/** The project whose Missions are shown: a directory, or the address of a repository. */
export const useNamedProject = (): string | undefined => {
  const { project } = useSearch({ from: "__root__" });
  return project === undefined || project === allProjects ? recentProjects()[0] : project;
};

/** The project whose squads and webhooks are shown: a directory. */
export const useProject = (): string | undefined => {
  const { project } = useSearch({ from: "__root__" });
  return project === undefined || project === allProjects || isAddress(project)
    ? recentProjects().find((recent) => !isAddress(recent))
    : project;
};
