export interface Files {
  readonly root: string;
}
