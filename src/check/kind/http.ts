import type { HttpCheck } from "../../protocol/check.ts";
import type { CommandResult } from "../../process/process.ts";
import type { CheckEnvironment } from "../../workspace/workspace.ts";
import type { CheckOptions, CheckResult } from "../check.ts";
import { folderOf, lastLines, missingProgram, toolPath } from "../shell.ts";
import { shellQuote } from "../../shell-quote.ts";
import { matchesPattern } from "../pattern.ts";
import { connectCommand, portOf, portLock, portTaken, portTakenRemedy } from "../port.ts";

/**
 * A check that starts a server, sends one GET request once it answers, and ends all that it started. Server and probe
 * run in one sandbox, and so in one network; the probe is written in bash because every sandbox has it.
 */

/** At most this many bytes of an answer are read. */
const maxAnswer = 1024 * 1024;
/** Longest wait for the end of a body that has begun, in milliseconds. */
const bodyMs = 10_000;
/** Pause before asking a server again that closed the connection without an answer, in milliseconds. */
const againMs = 100;
/** Characters of the answer in the output. */
const shownAnswer = 2000;

type Answer = { status: number; body: string; text: string };
type Verdict = Pick<CheckResult, "state" | "reason">;

export const runHttpCheck = async (
  check: HttpCheck,
  place: CheckEnvironment,
  { limits, signal, network, onOutput }: CheckOptions,
): Promise<CheckResult> => {
  const url = new URL(check.url);
  using _port = network === true ? await portLock(portOf(url), signal) : undefined;
  const begun = performance.now();
  const over = new AbortController();
  const until = AbortSignal.any([signal, over.signal]);
  const common = {
    cwd: folderOf(place, check.cwd),
    apart: `http-${check.id}`,
    timeoutMs: check.timeoutSeconds * 1000,
    keepBytes: limits.commandOutputBytes,
  };
  const { promise: begins, resolve: begin } = Promise.withResolvers<void>();
  const server = place.run({
    ...common,
    run: `${guard(url, check.start)}\n${toolPath(place.rootInSandbox, check.cwd)}\n${check.start}`,
    ...(check.env === undefined ? {} : { env: check.env }),
    signal: until,
    onOutput(text) {
      begin();
      onOutput?.(text);
    },
  });
  let answer: Answer | "unable" | undefined;
  const asked = new AbortController();
  const asking = (async () => {
    await begins;
    while (answer === undefined && !asked.signal.aborted) {
      answer = await ask(url, place, { ...common, signal: AbortSignal.any([until, asked.signal]) });
      if (answer === undefined) await new Promise((resolve) => setTimeout(resolve, againMs));
    }
  })();
  await Promise.race([asking, server]);
  asked.abort();
  over.abort();
  begin();
  const [ran] = await Promise.all([server, asking]);
  signal.throwIfAborted();
  const { state, reason } = await judge(check, answer, ran);
  const told = typeof answer === "object" ? `\nGET ${check.url}:\n${answer.text.slice(0, shownAnswer)}\n` : "";
  const output = `${ran.output}${told}${reason === null ? "" : `\n${reason}\n`}`;
  const durationMs = performance.now() - begun;
  return { state, exitCode: null, durationMs, output, tail: lastLines(output), reason, final: ran.ended === "timeout" };
};

/** Fails if something already answers at the address, because that would be tested in place of the server. */
const guard = (url: URL, start: string): string =>
  `if (${connectCommand(url)}); then echo ${shellQuote(`${url.host} ${portTaken}`)}; exit 1; fi
echo ${shellQuote(`$ ${start}`)}`;

/**
 * undefined: the connection was closed without an answer, or the signal aborted. "unable": this bash cannot open
 * connections.
 */
const ask = async (
  url: URL,
  place: CheckEnvironment,
  common: Pick<Parameters<CheckEnvironment["run"]>[0], "cwd" | "apart" | "timeoutMs" | "keepBytes" | "signal">,
): Promise<Answer | "unable" | undefined> => {
  const whole = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let seen = "";
  // HTTP/1.0: the answer has no chunks and ends with the connection.
  const request = `GET ${url.pathname}${url.search} HTTP/1.0\r\nHost: ${url.host}\r\nAccept: */*\r\nUser-Agent: sortie\r\nConnection: close\r\n\r\n`;
  const ran = await place.run({
    ...common,
    keepBytes: 2 * maxAnswer,
    signal: AbortSignal.any([common.signal, whole.signal]),
    run: `export LC_ALL=C
case $( (exec 3<>/dev/tcp/127.0.0.1/1) 2>&1) in *'No such file'*) exit 3;; esac
until ${connectCommand(url)}; do sleep 0.05; done
printf %s ${shellQuote(request)} >&3
cat <&3`,
    onOutput(text) {
      seen += text;
      if (isWhole(seen) || seen.length > maxAnswer) whole.abort();
      else if (seen.includes("\r\n\r\n")) timer ??= setTimeout(() => whole.abort(), bodyMs);
    },
  });
  clearTimeout(timer);
  if (ran.ended === "exit" && ran.exitCode === 3) return "unable";
  return answerOf(ran.stdout);
};

const answerOf = (text: string): Answer | undefined => {
  const status = /^HTTP\/1\.[01] (\d{3})(?!\d)/.exec(text)?.[1];
  const end = text.indexOf("\r\n\r\n");
  return status === undefined || end < 0 ? undefined : { status: Number(status), body: text.slice(end + 4), text };
};

/** The announced length has arrived, so there is no need to wait for a server that keeps the connection open. */
const isWhole = (text: string): boolean => {
  const end = text.indexOf("\r\n\r\n");
  const length = end < 0 ? undefined : /\r\ncontent-length: *(\d{1,12})\r\n/i.exec(text.slice(0, end + 2))?.[1];
  return length !== undefined && Buffer.byteLength(text) - Buffer.byteLength(text.slice(0, end + 4)) >= Number(length);
};

const judge = async (check: HttpCheck, answer: Answer | "unable" | undefined, ran: CommandResult): Promise<Verdict> => {
  const error = (reason: string): Verdict => ({ state: "error", reason });
  const failed = (reason: string): Verdict => ({ state: "failed", reason });
  if (answer === "unable")
    return error(
      "the probe needs a bash that can open connections (/dev/tcp), and this machine's cannot. Install bash 4 or newer, built with network redirections, first on the service's PATH",
    );
  if (answer === undefined) {
    const lacks = missingProgram(ran);
    if (lacks !== undefined) return error(lacks);
    if (ran.stdout.includes(portTaken)) return error(portTakenRemedy(new URL(check.url)));
    switch (ran.ended) {
      case "not-started":
        return error(`could not be started: ${ran.output}`);
      case "disk":
        return failed("the server was stopped, because the Task uses too much disk space");
      case "timeout":
      case "aborted":
        return failed(`${check.url} did not answer within ${check.timeoutSeconds} s`);
      case "exit":
        return failed(
          `the server exited (${ran.exitCode === null ? "by a signal" : `exit ${ran.exitCode}`}) before ${check.url} answered`,
        );
    }
  }
  const { status, bodyMatches } = check.expect;
  if (answer.status !== status) return failed(`Expected status ${status} of ${check.url}, got ${answer.status}`);
  if (bodyMatches === undefined) return { state: "passed", reason: null };
  const found = await matchesPattern(bodyMatches, answer.body);
  if (found === true) return { state: "passed", reason: null };
  return failed(
    found === false ? `Expected a body that matches /${bodyMatches}/, got none` : `the body ${found} /${bodyMatches}/`,
  );
};
