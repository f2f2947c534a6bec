/** The files a Task worked in, or the repository they belong to, are gone; the message says which. */
export class WorkspaceLost extends Error {
  readonly code = "workspace_lost";
}
