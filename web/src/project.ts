import { useSearch } from "@tanstack/react-router";
import { recentProjects } from "./settings.ts";

/** The project whose squads and webhooks are shown. */

export const useProject = (): string | undefined => {
  const { project } = useSearch({ from: "__root__" });
  return project ?? recentProjects()[0];
};
