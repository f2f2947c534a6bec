/**
 * Every limit that a caller or an operator can meet, with its default, each configurable under `limits` in
 * config.jsonc. The names tell the unit: bytes, seconds, or else a count. Source: shared/design/security.md C2 and C4.
 */
export const defaultLimits = {
  /** The JSON body of ordinary routes. */
  bodyBytes: 1024 * 1024,
  /** The JSON body of routes that accept attachments. */
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
  /** Requests per second and burst, per client; applies only if the service is bound to a non-loopback address. */
  requestsPerSecond: 50,
  requestsBurst: 200,
  createsPerSecond: 10,
  createsBurst: 30,
  /** Tasks that may wait for a slot before POST /task answers 429. */
  waiting: 10_000,
  /** Tasks that run at the same time, on all nodes together and per project; 0 = as many as the nodes have room for. */
  running: 0,
  runningPerProject: 0,
  streams: 64,
  streamsPerTask: 8,
  streamsPerClient: 16,
  streamQueueBytes: 256 * 1024,
  streamQueueEvents: 1000,
  /** The output of one command that is kept, head and tail together. */
  commandOutputBytes: 1024 * 1024,
  /**
   * Limits of an agent's command with its descendants; 0 = none. Processes are counted per user; root is not limited.
   */
  commandProcesses: 8192,
  commandFiles: 16_384,
  commandFileBytes: 8 * 1024 ** 3,
  /** Address space. Programs such as Node reserve far more of it than they use. */
  commandMemoryBytes: 0,
  /**
   * The size of /tmp and of /dev/shm in a sandbox of tier 1, each. They use memory. 0 = half of the machine's memory.
   */
  commandTmpBytes: 2 * 1024 ** 3,
  commandSeconds: 120,
  commandMaxSeconds: 600,
  /** Commands of one Task that may run in the background at the same time. */
  backgroundCommands: 4,
  /** Files that a Task's agents may hand over: the number, the size of one, and the total size. */
  artifacts: 50,
  artifactBytes: 10 * 1024 ** 2,
  artifactsBytes: 100 * 1024 ** 2,
  /** Screenshots kept of a Task's checks and previews. */
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
  /** Free disk space below which running Tasks pause; unless configured, it is at most `diskFreeBytes`. */
  diskPauseBytes: 512 * 1024 ** 2,
  /** Disk space of one Task: its worktree with everything that its commands write; 0 = no limit. */
  taskDiskBytes: 20 * 1024 ** 3,
  /** Days after which a Task that has ended is deleted; 0 = never. */
  keepDays: 0,
  /** Rounds in which failed checks or reviews are returned to the agents. */
  checkRounds: 3,
  /** Model calls of one review, and their tokens together. The last call must be the verdict. */
  reviewTurns: 6,
  reviewTokens: 40_000,
  /**
   * The time for each of the project's own checks, which run if a request names none, and for a proof by contrast; 0 =
   * neither runs.
   */
  projectCheckSeconds: 120,
  /** Rounds in which conflicts with the project are returned to the agents. */
  landingRounds: 3,
  /** How often in a row a change is rebased onto new commits and checked again before it may land. */
  landingMoves: 20,
  /** The untracked files of a project that a Task sees: the size of one, the total size, and the number. */
  snapshotFileBytes: 50 * 1024 ** 2,
  snapshotBytes: 500 * 1024 ** 2,
  snapshotFiles: 20_000,
  /** The largest dependency folder that is copied if folders cannot be mounted. */
  dependencyFiles: 20_000,
  dependencyBytes: 200 * 1024 ** 2,
  /** The time for `workspace.setup`. */
  setupSeconds: 600,
  /** The Task ends after this many equal calls in a row with equal results, not counting polling; 0 = off. */
  loopRepeats: 12,
  /** How many questions a Task's agents may ask its user, and for how many calls they may ask permission. */
  asks: 5,
  permissionAsks: 50,
  /** How long a question waits for an answer (0 = no limit), and how long a call waits for permission. */
  askSeconds: 86_400,
  permissionSeconds: 600,
  /** How long a draining node lets its runs finish their current steps. */
  drainSeconds: 30,
  /** How often a working Task's files are kept as a checkpoint for other nodes; 0 = only when they are committed. */
  checkpointSeconds: 30,
  /** The percentage of each of a Mission's caps that no first attempt of a phase gets. */
  reservePercent: 15,
  steps: 1000,
  tokens: 20_000_000,
  minutes: 120,
  /**
   * The time until a model's first byte, between two bytes, and for a whole reply. Then the connection is cut and the
   * request is retried.
   */
  modelFirstSeconds: 180,
  modelSilentSeconds: 120,
  modelReplySeconds: 1800,
  /** Failures of a provider in a row, over all Tasks, after which it gets no requests for some time; 0 = off. */
  breakerFailures: 5,
  /** How long other calls wait for a call that probes such a provider and gets no first byte. */
  probeSeconds: 30,
  /** How long a Task waits for its provider before it goes back to the queue. */
  waitSeconds: 60,
  /** How long a Task waits for a provider's quota before it fails. */
  quotaHours: 24,
} as const;

export type Limits = { [K in keyof typeof defaultLimits]: number };
