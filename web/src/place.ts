/** How a project is named: by a directory on the service's machine, or by the address of a repository. */

/** Stands for a project in the page's URL: the Tasks of all projects. */
export const allProjects = "all";

export const isAddress = (project: string): boolean => /^[a-z][a-z0-9+.-]*:\/\/|^[\w.-]+@[\w.-]+:/i.test(project);

/** The address, and the branch, tag or commit that the user typed after `#`. */
export const splitAddress = (project: string): { url: string; ref?: string } => {
  const [url = "", ref = ""] = project.split("#", 2);
  return ref === "" ? { url } : { url, ref };
};

/** The project as a query of the routes that take one. */
export const whereOf = (project: string): { directory: string } | { repository: string } =>
  isAddress(project) ? { repository: splitAddress(project).url } : { directory: project };

/** The last part of a path or address, by which people know the project. */
export const nameOf = (project: string): string => {
  const path = isAddress(project) ? splitAddress(project).url.replace(/\.git\/?$/, "") : project;
  return path.replace(/\/+$/, "").split(/[/:]/).at(-1) || project;
};

type Placed = { directory: string; repository: { url: string } | null };

/** The project of a Task, as this page names it. */
export const projectOf = ({ directory, repository }: Placed): string => repository?.url ?? directory;

/** Whether the service may keep a repository in this directory, which was then named by its address. */
export const mayBeKept = (directory: string): boolean => /\/repositories\/[^/]+-[0-9a-f]{12}\/[^/]+$/.test(directory);
