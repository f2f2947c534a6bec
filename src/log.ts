import { pino } from "pino";

/** What the layers below the service may say. Lines are JSON on stderr; stdout belongs to the command line. */
export type Log = {
  debug(data: object, message: string): void;
  info(data: object, message: string): void;
  warn(data: object, message: string): void;
  error(data: object, message: string): void;
};

export const createLog = (level: string): Log =>
  pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, pino.destination({ dest: 2, sync: true }));

export const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };
