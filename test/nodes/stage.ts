import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "pg";
import { expect } from "vitest";
import { built } from "../harness/built.ts";
import { freshSchema, postgresURL, untilRoom } from "../harness/postgres.ts";
import { makeProject, temporary, until } from "../harness/project.ts";
import { startService } from "../harness/service.ts";

/** A folder and a database for several services, and what the tests ask of them. */

type Answer = { status: number; body: Record<string, unknown>; text: string };

export const place = async () => {
  const scope = new AsyncDisposableStack();
  const folder = scope.use(temporary("sortie-nodes-"));
  const schema = scope.use(freshSchema(postgresURL ?? ""));
  await schema.create();
  const url = new URL(postgresURL ?? "");
  url.searchParams.set("options", `-c search_path=${schema.name},public`);
  const env = (node: string | undefined, more: Record<string, string> = {}) => ({
    SERVICE_DATABASE_URL: url.href,
    ...(node === undefined ? {} : { SERVICE_NODE: node }),
    ...more,
  });
  const project = (name: string, test = "true") =>
    makeProject(join(folder.path, name), {
      "package.json": JSON.stringify({ scripts: { test } }),
      "a.txt": "one\n",
      ".gitignore": ".again\n",
    });
  return {
    path: folder.path,
    env,
    project,
    /** Changes what the nodes have in common, behind their back, or reads it. */
    async sql(text: string): Promise<object[]> {
      const client = new Client({ connectionString: url.href });
      await client.connect();
      try {
        return (await client.query<object>(text)).rows;
      } finally {
        await client.end();
      }
    },
    start: (node: string | undefined, data = node ?? "sole", more: Record<string, string> = {}) =>
      startService(join(folder.path, data), env(node, more)),
    [Symbol.asyncDispose]: () => scope.disposeAsync(),
  };
};

export const send = async (
  service: { url: string },
  method: string,
  path: string,
  { directory, body }: { directory?: string; body?: object } = {},
): Promise<Answer> => {
  const response = await fetch(`${service.url}${path}`, {
    method,
    headers: {
      ...(directory === undefined ? {} : { "x-service-directory": directory }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const parsed = response.headers.get("content-type")?.includes("json") ? (JSON.parse(text) as Answer["body"]) : {};
  return { status: response.status, body: parsed, text };
};

export const create = async (service: { url: string }, directory: string, request: string, more: object = {}) => {
  const { status, body } = await send(service, "POST", "/task", {
    directory,
    body: { request, productPillar: "code", ...more },
  });
  expect(status, JSON.stringify(body)).toBe(202);
  return body["taskID"] as string;
};

export const ended = (service: { url: string }, taskID: string, ms = 40_000): Promise<Answer> =>
  until(
    () => send(service, "GET", `/task/${taskID}/status`),
    ({ body }) => body["lifecycleStatus"] !== "active",
    ms,
  );

export const change = "Replace `one` with `two` in a.txt";

const script = fileURLToPath(new URL("../../bin/sortie.js", import.meta.url));

/** `sortie serve`, as operators start it. */
export const serve = async (env: Record<string, string>) => {
  await built();
  await untilRoom(env);
  const child = spawn(process.execPath, [script, "serve"], {
    env: { PATH: process.env["PATH"] ?? "", SERVICE_PORT: "0", ...env },
    stdio: ["ignore", "pipe", "ignore"],
  });
  let said = "";
  child.stdout.on("data", (chunk: Buffer) => (said += String(chunk)));
  const gone = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  const url = await until(
    async () => /listening on (\S+)/.exec(said)?.[1],
    (found) => found !== undefined || child.exitCode !== null,
  );
  return {
    url: url ?? "",
    stop: (signal: NodeJS.Signals) => (child.kill(signal), gone),
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null) child.kill("SIGKILL");
      await gone;
    },
  };
};
