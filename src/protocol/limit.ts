/**
 * Every number a caller or an operator can run into, with its default. Bytes, seconds and counts as named.
 * Source: shared/design/security.md C2 and C4. Each is configurable under `limits` in config.jsonc.
 */
export const defaultLimits = {
  /** JSON body of ordinary routes, bytes. */
  bodyBytes: 1024 * 1024,
  /** JSON body of routes that carry attachments, bytes. */
  largeBodyBytes: 28 * 1024 * 1024,
  /** Large bodies read at the same time. */
  largeBodies: 2,
  jsonDepth: 32,
  jsonKeys: 10_000,
  requestBytes: 256 * 1024,
  titleChars: 200,
  sourceChars: 64,
  reasonBytes: 2 * 1024,
  metadataBytes: 16 * 1024,
  checks: 32,
  attachments: 16,
  attachmentBytes: 10 * 1024 * 1024,
  attachmentsBytes: 20 * 1024 * 1024,
  /** Requests per second and burst, per client; non-loopback binds only. */
  requestsPerSecond: 50,
  requestsBurst: 200,
  createsPerSecond: 10,
  createsBurst: 30,
  /** Tasks that may wait for a slot before POST /task answers 429. */
  waiting: 10_000,
  streams: 64,
  streamsPerTask: 8,
  streamsPerClient: 16,
  streamQueueBytes: 256 * 1024,
  streamQueueEvents: 1000,
  /** Output of one command kept, head and tail together, bytes. */
  commandOutputBytes: 1024 * 1024,
  /** Of an agent's command and what it starts; 0 = none. Processes are counted by user, and not for root. */
  commandProcesses: 8192,
  commandFiles: 16_384,
  commandFileBytes: 8 * 1024 ** 3,
  /** Address space; programs such as Node reserve far more than they use. */
  commandMemoryBytes: 0,
  commandSeconds: 120,
  commandMaxSeconds: 600,
  /** Commands of one Task that may run in the background at the same time. */
  backgroundCommands: 4,
  /** Files that a Task's agents may hand over, one of them and all together in bytes. */
  artifacts: 50,
  artifactBytes: 10 * 1024 ** 2,
  artifactsBytes: 100 * 1024 ** 2,
  /** Pictures that a Task's checks and previews may keep. */
  pictures: 100,
  /** Time of one capture, from the server's start. */
  previewSeconds: 60,
  archiveFiles: 100_000,
  archiveBytes: 2 * 1024 ** 3,
  archiveFileBytes: 512 * 1024 ** 2,
  archiveSeconds: 600,
  archives: 2,
  /** Free disk under which POST /task answers 503, bytes. */
  diskFreeBytes: 1024 ** 3,
  diskFreePercent: 5,
  /** Rounds of failing checks that go back to the agents. */
  checkRounds: 3,
  /** Each of the project's own checks, which run where a request names none; 0 = they do not. */
  projectCheckSeconds: 120,
  /** Rounds of conflicts with the project that go back to the agents. */
  landingRounds: 3,
  /** Times in a row that a change is moved onto new commits and checked again before it may land. */
  landingMoves: 20,
  /** What a Task sees of a project's untracked files: one file and all together in bytes, and their number. */
  snapshotFileBytes: 50 * 1024 ** 2,
  snapshotBytes: 500 * 1024 ** 2,
  snapshotFiles: 20_000,
  /** The largest dependency folder that is copied, where none can be mounted: entries and bytes. */
  dependencyFiles: 20_000,
  dependencyBytes: 200 * 1024 ** 2,
  /** Time for `workspace.setup`. */
  setupSeconds: 600,
  /** The same call with the same result this often in a row ends the Task; 0 = off. */
  loopRepeats: 50,
  /** Questions that the agents of a Task may put to its user, and calls for which they may ask permission. */
  asks: 5,
  permissionAsks: 50,
  /** The longest that a call waits for an answer. */
  askSeconds: 600,
  steps: 1000,
  tokens: 20_000_000,
  minutes: 120,
  /** Seconds until a model's first byte, between two, and for a whole reply; then the line is cut and asked again. */
  modelFirstSeconds: 180,
  modelSilentSeconds: 120,
  modelReplySeconds: 1800,
  /** Failures of a provider in a row, over all Tasks, after which it is left alone for a while; 0 = off. */
  breakerFailures: 5,
  /** Seconds that a Task waits for its provider without giving its place to others. */
  waitSeconds: 60,
  /** Hours that a Task waits for a provider's quota before it fails. */
  quotaHours: 24,
} as const;

export type Limits = { [K in keyof typeof defaultLimits]: number };
