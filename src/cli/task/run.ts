import { readFile } from "node:fs/promises";
import { basename, extname } from "node:path";
import { messageOf } from "../../error.ts";
import type { Effort } from "../../protocol/field.ts";
import { callOf, expand } from "../../protocol/task/saved-call.ts";
import { connect, dataOf, type Service, type Target } from "../connection.ts";
import { Exit, exit } from "../terminal/exit.ts";
import { clean } from "../terminal/format.ts";
import { follow } from "./follow.ts";
import { checkPlace } from "./place.ts";
import type { Screen } from "../terminal/screen.ts";

export type RunOptions = {
  check?: string[];
  attach?: string[];
  outputSchema?: string;
  squad?: string;
  model?: string;
  effort?: Effort;
  priority?: "critical" | "high" | "normal" | "low";
  title?: string;
  landing?: "commit" | "branch" | "pull-request";
  approve?: ("plan" | "landing")[];
  pillar: "code" | "work";
  callback?: string;
  askSeconds?: number;
  json?: true;
  detach?: true;
  inPlace?: true;
  repo?: string;
  ref?: string;
  maxMinutes?: number;
  maxCost?: number;
  maxTokens?: number;
  maxSteps?: number;
};

/** How long a question waits when nobody is at the terminal to answer it. */
const unattendedSeconds = 600;

/** `sortie run`: creates a Task and follows it to its end. Resolves to the exit code. */
export const runTask = async (
  request: string,
  options: RunOptions,
  target: Target,
  screen: Screen,
  emit: (value: object) => void,
): Promise<number> => {
  const service = connect(target);
  const { check = [], attach = [], squad, model, effort, priority, title, landing, pillar, callback } = options;
  const { maxMinutes, maxCost, maxTokens, maxSteps } = options;
  const attended = screen.rich && process.stdin.isTTY;
  const askSeconds = options.askSeconds ?? (attended ? undefined : unattendedSeconds);
  const budget = {
    ...(maxMinutes === undefined ? {} : { maxMinutes }),
    ...(maxCost === undefined ? {} : { maxCostUSD: maxCost }),
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(maxSteps === undefined ? {} : { maxSteps }),
  };
  const given = request === "-" ? await readStdin() : request;
  const body = {
    request: request === "-" ? given : await saved(given, options.repo, service, target),
    productPillar: pillar,
    source: "cli",
    ...(check.length === 0 ? {} : { checks: check }),
    ...(attach.length === 0 ? {} : { attachments: await Promise.all(attach.map(attachment)) }),
    ...(options.outputSchema === undefined ? {} : { outputSchema: await schemaIn(options.outputSchema) }),
    ...(squad === undefined ? {} : { promptProfile: squad }),
    ...(model === undefined ? {} : { model: modelRef(model) }),
    ...(effort === undefined ? {} : { effort }),
    ...(priority === undefined ? {} : { priority }),
    ...(title === undefined ? {} : { title }),
    ...(landing === undefined ? {} : { landing }),
    ...(options.approve === undefined ? {} : { approve: options.approve }),
    ...(callback === undefined ? {} : { callbackURL: callback }),
    ...(options.repo === undefined
      ? {}
      : { repository: { url: options.repo, ...(options.ref && { ref: options.ref }) } }),
    ...(options.inPlace ? { isolation: "directory" as const } : {}),
    ...(Object.keys(budget).length === 0 ? {} : { budget }),
    ...(askSeconds === undefined ? {} : { limits: { askSeconds } }),
  };
  if (options.ref !== undefined && options.repo === undefined)
    throw new Exit(exit.usage, "Expected --ref only with --repo: a directory already has a branch checked out.");
  if (options.repo === undefined) await checkPlace(target, options, screen);
  const created = dataOf(await service.task.create({ body }), target.url);
  const { taskID, directory } = created;
  if (options.detach) {
    if (options.json) emit(created);
    else process.stdout.write(`${taskID}\n`);
    return exit.completed;
  }
  const where = created.repository === undefined ? directory : clean(created.repository.url);
  screen.say(`${taskID} in ${where}${created.isolation === "directory" ? ", editing its files directly" : ""}`);
  return follow({
    service,
    target,
    taskID,
    screen,
    emit: options.json ? emit : undefined,
    output: options.outputSchema !== undefined,
  });
};

/** The text of the project's saved request if `text` is a call such as `/name arguments`; otherwise `text` itself. */
const saved = async (text: string, repo: string | undefined, service: Service, target: Target): Promise<string> => {
  const call = callOf(text);
  if (call === undefined) return text;
  if (repo !== undefined)
    throw new Exit(
      exit.usage,
      `Expected a request in words with --repo, got "/${clean(call.name)}": saved requests are those of a directory. A text that is to begin like this comes from standard input (-).`,
    );
  const known = dataOf(await service.project.requests(), target.url);
  const found = expand(text, known);
  if ("request" in found) return found.request;
  const names = known.map(({ name }) => `/${clean(name)}`).join(", ") || "there is none";
  throw new Exit(
    exit.usage,
    `Expected a saved request of the project (.claude/commands: ${names}), got "/${clean(found.unknown)}". A request that starts with a slash names a saved one.`,
  );
};

const readStdin = async (): Promise<string> => {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
};

const schemaIn = async (path: string): Promise<Record<string, never>> => {
  const wrong = (why: string) => new Exit(exit.usage, `--output-schema: expected a file with a JSON Schema, ${why}`);
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw wrong(`cannot read ${path}: ${messageOf(error)}`);
  });
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch (error) {
    throw wrong(`got no JSON in ${path}: ${messageOf(error)}`);
  }
  if (typeof schema === "object" && schema !== null && !Array.isArray(schema)) return schema as Record<string, never>;
  throw wrong(`got ${JSON.stringify(schema).slice(0, 100)} in ${path}`);
};

const modelRef = (text: string): `${string}/${string}` => {
  const [provider, ...name] = text.split("/");
  if (provider === undefined || provider === "" || name.join("/") === "")
    throw new Exit(
      exit.usage,
      `Expected --model to be provider/model, such as anthropic/claude-sonnet-4-5, got "${text}".`,
    );
  return `${provider}/${name.join("/")}`;
};

/** Media types by file extension; the service inspects images and PDFs itself. */
const mimes: Record<string, string> = {
  ".css": "text/css",
  ".csv": "text/csv",
  ".diff": "text/x-diff",
  ".gif": "image/gif",
  ".html": "text/html",
  ".jpeg": "image/jpeg",
  ".jpg": "image/jpeg",
  ".json": "application/json",
  ".md": "text/markdown",
  ".patch": "text/x-diff",
  ".pdf": "application/pdf",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".webp": "image/webp",
};

export const attachment = async (path: string) => {
  try {
    const data = await readFile(path);
    const text = !data.includes(0);
    const mime = mimes[extname(path).toLowerCase()] ?? (text ? "text/plain" : "application/octet-stream");
    return { filename: basename(path), mime, data: data.toString("base64") };
  } catch (error) {
    throw new Exit(exit.usage, `--attach: cannot read ${path}: ${messageOf(error)}`);
  }
};
