/** Exit codes that scripts can distinguish; part of the command's interface. */
export const exit = {
  completed: 0,
  failed: 1,
  usage: 2,
  unreachable: 3,
  credentials: 4,
  checksFailed: 5,
  needsModel: 6,
  timeLimit: 124,
  cancelled: 130,
} as const;

/** Ends the command with an exit code and one message for people. */
export class Exit extends Error {
  readonly exitCode: number;
  constructor(exitCode: number, message: string) {
    super(message);
    this.name = "Exit";
    this.exitCode = exitCode;
  }
}
