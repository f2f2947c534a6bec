export interface Git {
  readonly root: string;
}
