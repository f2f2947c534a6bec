/**
 * Every limit that a caller or an operator can run into, with its default, each configurable under `limits` in
 * config.jsonc. The names say the unit: bytes, seconds, or else a count. Source: shared/design/security.md C2 and C4.
 */
export const defaultLimits = {
  /** JSON body of ordinary routes. */
  bodyBytes: 1024 * 1024,
  /** JSON body of routes that carry attachments. */
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
  /** Requests per second and burst, per client; only if the service is bound to a non-loopback address. */
  requestsPerSecond: 50,
  requestsBurst: 200,
  createsPerSecond: 10,
  createsBurst: 30,
  /** Tasks that may wait for a slot before POST /task answers 429. */
  waiting: 10_000,
  /** Tasks that run at the same time, over all nodes, and of one project; 0 = as many as the nodes have room for. */
  running: 0,
  runningPerProject: 0,
  streams: 64,
  streamsPerTask: 8,
  streamsPerClient: 16,
  streamQueueBytes: 256 * 1024,
  streamQueueEvents: 1000,
  /** Output kept of one command, head and tail together. */
  commandOutputBytes: 1024 * 1024,
  /** Limits of an agent's command with its descendants; 0 = none. Processes are counted per user, and not for root. */
  commandProcesses: 8192,
  commandFiles: 16_384,
  commandFileBytes: 8 * 1024 ** 3,
  /** Address space, of which programs such as Node reserve far more than they use. */
  commandMemoryBytes: 0,
  /** What /tmp and /dev/shm of a sandbox may hold in tier 1, each: it is memory. 0 = half of the machine's. */
  commandTmpBytes: 2 * 1024 ** 3,
  commandSeconds: 120,
  commandMaxSeconds: 600,
  /** Commands of one Task that may run in the background at the same time. */
  backgroundCommands: 4,
  /** Files that a Task's agents may hand over: their number, the size of one, and their total size. */
  artifacts: 50,
  artifactBytes: 10 * 1024 ** 2,
  artifactsBytes: 100 * 1024 ** 2,
  /** Pictures kept of a Task's checks and previews. */
  pictures: 100,
  /** For one capture, counted from the start of the Task's server. */
  previewSeconds: 60,
  archiveFiles: 100_000,
  archiveBytes: 2 * 1024 ** 3,
  archiveFileBytes: 512 * 1024 ** 2,
  archiveSeconds: 600,
  archives: 2,
  /** Free disk space below which POST /task answers 503. */
  diskFreeBytes: 1024 ** 3,
  diskFreePercent: 5,
  /** Free disk space below which running Tasks pause; unless configured, at most `diskFreeBytes`. */
  diskPauseBytes: 512 * 1024 ** 2,
  /** What one Task may have on the disk, its worktree with all that its commands write; 0 = no bound. */
  taskDiskBytes: 20 * 1024 ** 3,
  /** Days after which a Task that has ended is deleted; 0 = never. */
  keepDays: 0,
  /** Rounds in which failed checks or reviews go back to the agents. */
  checkRounds: 3,
  /** Model calls of one review, and the tokens that they may take together: with the last of them it has to judge. */
  reviewTurns: 6,
  reviewTokens: 40_000,
  /**
   * For each of the project's own checks, which run if a request names none, and for a proof by contrast; 0 = neither.
   */
  projectCheckSeconds: 120,
  /** Rounds in which conflicts with the project go back to the agents. */
  landingRounds: 3,
  /** How often in a row a change is rebased onto new commits and checked again before it may land. */
  landingMoves: 20,
  /** What a Task sees of a project's untracked files: the size of one, their total size, and their number. */
  snapshotFileBytes: 50 * 1024 ** 2,
  snapshotBytes: 500 * 1024 ** 2,
  snapshotFiles: 20_000,
  /** The largest dependency folder that is copied where none can be mounted. */
  dependencyFiles: 20_000,
  dependencyBytes: 200 * 1024 ** 2,
  /** For `workspace.setup`. */
  setupSeconds: 600,
  /** The Task ends after the same call with the same result this often in a row, polling apart; 0 = off. */
  loopRepeats: 12,
  /** Questions that the agents of a Task may ask its user, and calls for which they may ask permission. */
  asks: 5,
  permissionAsks: 50,
  /** The longest time that a question waits for an answer (0 = for ever), and that a call waits for permission. */
  askSeconds: 86_400,
  permissionSeconds: 600,
  /** How long a node that is to take up nothing more lets its runs come to the end of their steps. */
  drainSeconds: 30,
  /**
   * How often the files of a Task that other nodes could go on with are kept for them while it works; 0 = when they are
   * committed.
   */
  checkpointSeconds: 30,
  /** Percentage of each cap of a Mission that no phase's first attempt is given. */
  reservePercent: 15,
  steps: 1000,
  tokens: 20_000_000,
  minutes: 120,
  /**
   * Until a model's first byte, between two bytes, and for a whole reply; then the connection is cut and the request
   * retried.
   */
  modelFirstSeconds: 180,
  modelSilentSeconds: 120,
  modelReplySeconds: 1800,
  /** Failures of a provider in a row, over all Tasks, after which it gets no requests for a while; 0 = off. */
  breakerFailures: 5,
  /** How long one call that probes such a provider, and gets no first byte, keeps the others waiting. */
  probeSeconds: 30,
  /** How long a Task waits for its provider before it goes back to the queue. */
  waitSeconds: 60,
  /** How long a Task waits for a provider's quota before it fails. */
  quotaHours: 24,
} as const;

export type Limits = { [K in keyof typeof defaultLimits]: number };
