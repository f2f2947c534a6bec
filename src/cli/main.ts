import "../disposable.ts";
import { Argument, Command, CommanderError, Option } from "commander";
import { StartError } from "../error.ts";
import { version } from "../package-root.ts";
import type { Target } from "./connection.ts";
import { addMissionCommands } from "./mission/command.ts";
import { asWord, collect, parseAmount, wholeNumber } from "./context.ts";
import { Exit, exit } from "./terminal/exit.ts";
import { createScreen } from "./terminal/screen.ts";
import { clean } from "./terminal/format.ts";
import { targetAt } from "./target.ts";
import type { RunOptions } from "./task/run.ts";
import { addTaskCommands } from "./task/command.ts";
import type { TrustOptions } from "./trust.ts";
import { addWebhookCommands } from "./webhook/command.ts";

/**
 * The command `sortie`: parses the arguments, loads the file of the requested command, and turns every outcome into an
 * exit code.
 */

/** The exit codes, shown by `sortie --help`; they are part of the command's interface. */
const codes = `
In a Git project that has tests: sortie run "run the tests and report". sortie doctor checks the machine.
If the service has a password, set SERVICE_SERVER_PASSWORD (and SERVICE_SERVER_USERNAME) for these commands too.

Exit codes: 0 completed, 1 Task failed, 2 usage, 3 service unreachable, 4 credentials, 5 checks failed,
6 needs a model, 124 time limit, 130 cancelled; for serve: 69, 70, 75 and 78 as in sysexits.h.`;

const emit = (value: object) => process.stdout.write(`${JSON.stringify(value)}\n`);

type Settings = { dataDir?: string; config?: string; json?: true };
type Shared = { url?: string; directory: string; repo?: string; node?: string; json?: true };

/** Imported by the actions only, so that help and usage errors appear at once. */
const loadCaller = async () => (await import("../config/caller.ts")).loadCaller();

/** The program with all its commands; `finish` is called with the exit code. */
export const createProgram = (finish: (code: number) => void): Command => {
  const program = new Command("sortie")
    .description("Runs coding agents on Tasks in your Git projects, checks the results, and lands them.")
    .version(version, "-v, --version")
    .addHelpText("after", codes)
    .exitOverride();

  program
    .command("serve")
    .description("start the service")
    .option("--port <n>", "port to listen on, 0 for any free one (default: 7878, SERVICE_PORT)", wholeNumber(0, 65_535))
    .option("--host <address>", "address to listen on (default: 127.0.0.1, SERVICE_HOST)")
    .option("--socket <path>", "listen on a Unix socket of mode 0600 instead (SERVICE_SOCKET)")
    .option("--data-dir <folder>", "where Tasks are stored (SERVICE_DATA_DIR)")
    .option("--config <file>", "config.jsonc (default: in the data folder, SERVICE_CONFIG)")
    .option("--model <provider/model>", "default model for Tasks (SERVICE_MODEL)")
    .option("--open", "open the page in the browser")
    .action(async ({ open, ...flags }) => {
      const [{ serve }, { plain, display, self }] = await Promise.all([import("./serve.ts"), loadCaller()]);
      await serve(flags, createScreen(process.stdout, plain), self, open === true && display);
    });

  program
    .command("demo")
    .description("run one Task from request to ZIP, on a small project in a temporary folder")
    .option("--mission", "run a Mission of three phases instead, one with a squad created for it")
    .option("--team", "take an issue to a merged pull request instead, on a local Git host")
    .action(async ({ mission, team }: { mission?: true; team?: true }) => {
      const caller = await loadCaller();
      const screen = createScreen(process.stdout, caller.plain);
      if (team) finish(await (await import("./demo/team.ts")).demoTeam(caller, screen));
      else if (mission) finish(await (await import("./demo/mission.ts")).demoMission(caller, screen));
      else finish(await (await import("./demo/task.ts")).demo(caller, screen));
    });

  program
    .command("doctor")
    .description("check what the service needs on this machine")
    .option("--port <n>", "the service's port", wholeNumber(0, 65_535))
    .option("--host <address>", "the service's address")
    .option("--socket <path>", "listen on a Unix socket of mode 0600 instead (SERVICE_SOCKET)")
    .option("--data-dir <folder>", "the service's data folder")
    .option("--config <file>", "the service's config.jsonc")
    .option("--json", "print one JSON object per check")
    .action(async ({ json, ...flags }) => {
      const [{ doctor }, { plain }] = await Promise.all([import("./doctor/doctor.ts"), loadCaller()]);
      finish(await doctor(flags, createScreen(process.stdout, plain), json ? emit : undefined));
    });

  const model = program.command("model").description("list, choose and test language models");
  /** Options of every command that reads the service's settings. */
  const setting = (command: Command) =>
    command
      .option("--data-dir <folder>", "the service's data folder")
      .option("--config <file>", "the service's config.jsonc")
      .option("--json", "print JSON to stdout, messages to stderr");
  const settled = async ({ json, ...flags }: Settings) => {
    const [commands, { plain }] = await Promise.all([import("./model.ts"), loadCaller()]);
    return { commands, flags, screen: createScreen(json ? process.stderr : process.stdout, plain), say: json && emit };
  };
  setting(model.command("ls").alias("list").description("list configured models, with the one in use and why")).action(
    async (options: Settings) => {
      const { commands, flags, screen, say } = await settled(options);
      finish(commands.listModels(flags, screen, say));
    },
  );
  setting(
    model
      .command("detect")
      .description("look for Ollama, LM Studio, llama.cpp and vLLM on this machine; changes nothing"),
  ).action(async (options: Settings) => {
    const { commands, screen, say } = await settled(options);
    finish(await commands.detectModels(screen, say));
  });
  setting(
    model
      .command("use <provider/model>")
      .description('write the choice to config.jsonc; with "none" every Task must name a model'),
  ).action(async (ref: string, options: Settings) => {
    const { commands, flags, screen, say } = await settled(options);
    finish(await commands.useModel(ref, flags, screen, say));
  });
  setting(
    model
      .command("test [provider/model]")
      .description("make one real call: response time, and whether tool calls work"),
  ).action(async (ref: string | undefined, options: Settings) => {
    const { commands, flags, screen, say } = await settled(options);
    finish(await commands.testModel(ref, flags, screen, say));
  });

  setting(
    program
      .command("trust")
      .description(
        "show what a project's .mcp.json and .sortie/environment.jsonc request, and grant exactly these files",
      )
      .option("-C, --directory <folder>", "the project", ".")
      .option("--digest <sha256>", "grant the file with this digest, without asking")
      .option("--revoke", "revoke the grant"),
  ).action(async ({ json, ...options }: TrustOptions & { json?: true }) => {
    const [{ trust }, { plain }] = await Promise.all([import("./trust.ts"), loadCaller()]);
    finish(await trust(options, createScreen(json ? process.stderr : process.stdout, plain), json ? emit : undefined));
  });

  /** Options of every command that calls a running service. */
  const speaking = (command: Command) =>
    command
      .option(
        "--url <address>",
        "the service (default: SERVICE_URL, else http://127.0.0.1:7878 with the port of SERVICE_PORT)",
      )
      .option("-C, --directory <folder>", "the project", ".")
      .option("--node <name>", "the node whose directory is meant, if several nodes have it")
      .option("--json", "print JSON to stdout, messages to stderr");
  const context = async ({ url, directory, repo, node, json }: Shared) => {
    const { username, password, plain, display, url: own } = await loadCaller();
    const target: Target = {
      ...targetAt(url ?? own, { username, password }),
      directory,
      repository: repo,
      node,
      named: url !== undefined,
    };
    const screen = createScreen(json ? process.stderr : process.stdout, plain);
    return { target, screen, emit: json ? emit : undefined, display };
  };

  speaking(
    program
      .command("run")
      .description("create a Task and follow it to its end")
      .argument("<request>", "what to do; - reads it from standard input, /name is a saved request of .claude/commands")
      .option("--check <command>", "check that must pass before the result lands; repeatable", collect)
      .option("--attach <file>", "attach a file for the agents; repeatable", collect)
      .option("--output-schema <file>", "JSON Schema for the Task's output; --json prints the output")
      .option("--squad <id>", "squad to use")
      .option("--model <provider/model>", "model to use")
      .addOption(
        new Option("--effort <level>", "reasoning effort of its models").choices(["none", "low", "medium", "high"]),
      )
      .addOption(new Option("--priority <level>").choices(["critical", "high", "normal", "low"]))
      .option("--title <text>", "the Task's title")
      .addOption(
        new Option(
          "--landing <where>",
          "where the result goes: the project's branch, sortie/<task>, or a pull request",
        ).choices(["commit", "branch", "pull-request"]),
      )
      .addOption(
        new Option("--approve <what...>", "what waits for your approval before it happens").choices([
          "plan",
          "landing",
        ]),
      )
      .option("--repo <url>", "a repository URL, instead of the folder")
      .option("--ref <name>", "the repository's branch, tag or commit (default: its default branch)")
      .addOption(new Option("--pillar <name>", "product pillar").choices(["code", "work"]).default("code"))
      .option("--callback <url>", "URL that gets a signed request when the Task ends or asks")
      .option(
        "--ask-seconds <n>",
        "how long a question waits for an answer, 0 = for ever (default: the service's; without a terminal 600)",
        wholeNumber(0, 366 * 86_400),
      )
      .option("--max-minutes <n>", "time limit; exit code 124 when it is reached", parseAmount)
      .option("--max-cost <usd>", "limit on the cost of its model calls", parseAmount)
      .option("--max-tokens <n>", "limit on the tokens of its model calls", wholeNumber(1, 1e12))
      .option("--max-steps <n>", "limit on the number of its model calls", wholeNumber(1, 1e9))
      .option("--in-place", "edit the project's files directly: no copy, no commit, no undo")
      .option("--detach", "print the Task's id and return"),
  )
    .allowExcessArguments()
    .action(async (request: string, options: RunOptions & Shared, { args }: Command) => {
      const calls = /^\/[A-Za-z0-9][\w.:-]*$/.test(request);
      if (args.length > 1 && !calls)
        throw new Exit(
          exit.usage,
          `Expected one request, got ${args.length} words. Put it in quotes: sortie run "${args.join(" ")}"`,
        );
      const { runTask } = await import("./task/run.ts");
      const { target, screen } = await context(options);
      finish(await runTask(calls ? args.map(asWord).join(" ") : request, options, target, screen, emit));
    });

  addTaskCommands(program, { speaking, context, finish });
  addMissionCommands(program, { speaking, context, finish });
  addWebhookCommands(program, { speaking, context, finish });

  const squad = program.command("squad").description("list, show, validate and install squads");
  const squads = () => import("./squad.ts");
  const scoped = (command: Command) =>
    command.addOption(new Option("--scope <scope>", "for every project, or for this one").choices(["user", "project"]));
  const fromRef = (command: Command) =>
    scoped(speaking(command)).option("--ref <ref>", "read the folder as of this branch, tag or commit");
  type Where = { scope?: "user" | "project" };
  speaking(squad.command("ls").alias("list").description("list the project's squads, and problems with others")).action(
    async (options: Shared) => finish(await (await squads()).list(await context(options))),
  );
  speaking(squad.command("show <id>").description("show a squad with its agents and skills")).action(
    async (id: string, options: Shared) => finish(await (await squads()).show(id, await context(options))),
  );
  fromRef(squad.command("validate <package>").description("check a folder or a ZIP for problems")).action(
    async (given: string, options: Shared & Where & { ref?: string }) =>
      finish(await (await squads()).validate(given, options, await context(options))),
  );
  fromRef(
    squad
      .command("install <package>")
      .description("install a folder or a ZIP; default scope: user")
      .option("--expect <digest>", "the digest it replaces"),
  ).action(async (given: string, options: Shared & Where & { ref?: string; expect?: string }) =>
    finish(await (await squads()).install(given, options, await context(options))),
  );
  scoped(
    speaking(
      squad
        .command("remove <id>")
        .alias("rm")
        .description("uninstall a squad; Tasks that started with it keep it")
        .option("--expect <digest>", "only this revision"),
    ),
  ).action(async (id: string, options: Shared & Where & { expect?: string }) =>
    finish(await (await squads()).remove(id, options, await context(options))),
  );
  speaking(
    squad
      .command("recommend <phase>")
      .description("find the squad that owns a kind of work")
      .addOption(new Option("--pillar <name>", "product pillar").choices(["code", "work"]).default("code")),
  ).action(async (phase: string, options: Shared & { pillar: "code" | "work" }) =>
    finish(await (await squads()).recommend(phase, options, await context(options))),
  );

  speaking(program.command("nodes").description("list the services that share the database, with their state")).action(
    async (options: Shared) => finish(await (await import("./node.ts")).nodes(await context(options))),
  );
  speaking(
    program
      .command("drain <node>")
      .description("stop one of them from starting work, and wait until its current steps have finished"),
  ).action(async (name: string, options: Shared) =>
    finish(await (await import("./node.ts")).drain(name, await context(options))),
  );
  const blobs = program.command("blobs").description("the long texts and files of a service");
  speaking(
    blobs
      .command("move")
      .description("move them from the data folder into the database, where other nodes can read them"),
  ).action(async (options: Shared) => finish(await (await import("./node.ts")).moveBlobs(await context(options))));

  program
    .command("completion")
    .description("generate shell completions")
    .addArgument(new Argument("<shell>").choices(["bash", "zsh", "fish"]))
    .action(async (shell: "bash" | "zsh" | "fish") => {
      const { shells, tableOf } = await import("./completion/completion.ts");
      process.stdout.write(shells[shell](tableOf(program)));
    });
  program
    .command("completion-ids", { hidden: true })
    .description("ids for a completion script, if the service answers in time")
    .addArgument(new Argument("<kind>").choices(["tasks", "missions", "squads"]))
    .argument("<line>", "the command line so far")
    .action(async (kind: "tasks" | "missions" | "squads", line: string) => {
      const [{ printIDs }, { url, username, password }] = await Promise.all([
        import("./completion/id.ts"),
        loadCaller(),
      ]);
      await printIDs(kind, line, { url, username, password });
      finish(exit.completed);
    });
  sayWhereHelpIs(program, "sortie");
  return program;
};

/** Makes a usage error name the command whose help has the answer. */
const sayWhereHelpIs = (command: Command, path: string): void => {
  command.showHelpAfterError(`Try \`${path} --help\`.`);
  for (const inner of command.commands) sayWhereHelpIs(inner, `${path} ${inner.name()}`);
};

/** Runs the command and ends the process with its exit code; `serve` runs until a signal ends it. */
export const runMain = async (argv: readonly string[]): Promise<void> => {
  const fail = (code: number, text: string) => {
    process.stderr.write(`${text}\n`);
    leave(code);
  };
  // A reader that closes the pipe early (`| head`) is no error.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    throw error;
  });
  try {
    await createProgram(leave).parseAsync(argv);
  } catch (error) {
    // Commander has already printed what it expected.
    if (error instanceof CommanderError) return leave(error.exitCode === 0 ? exit.completed : exit.usage);
    if (error instanceof Exit || error instanceof StartError) return fail(error.exitCode, `sortie: ${error.message}`);
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    fail(exit.failed, `sortie: this is a bug in sortie, please report it.\n${clean(text)}`);
  }
};

/**
 * Exits without waiting for fetch's idle connections, which would keep the process alive for seconds. Flushes the
 * output first.
 */
const leave = (code: number): void => {
  process.exitCode = code;
  process.stdout.write("", () => process.stderr.write("", () => process.exit(code)));
};
