import { failingLineOf } from "../../protocol/task/failing-line.ts";
import { serviceSourceOf } from "../../protocol/event/source.ts";
import type { Frame } from "../../protocol/event/frame.ts";
import type { Screen } from "../terminal/screen.ts";
import { clean, duration, firstLine, indented, line, textOf } from "../terminal/format.ts";

/** Agents have the names that their squad gives them; only the Orchestrator is written as in the manual. */
const nameOfAgent = (agent: string): string => (agent === "orchestrator" ? "Orchestrator" : line(agent, 40));

/**
 * Turns the events of one Task or Mission into lines for people. Events must be passed in order from the first one,
 * because later events name checks and calls only by id; `checks` maps ids of checks that are already known to their
 * names. Returns undefined for events that need no line, including unknown ones of a newer service.
 */
export const createWords = ({ colors }: Pick<Screen, "colors">, checks = new Map<string, string>()) => {
  const { bold, dim, green, red, yellow } = colors;
  const calls = new Map<string, string>();
  const slices = new Map<string, string>();
  const agents = new Map<string, string>();

  const nameOf = (checkID: string) => line(checks.get(checkID) ?? checkID, 60);
  const titleOf = (sliceID: string) => slices.get(sliceID) ?? "the whole request";
  const when = (on: "base" | "work") => (on === "base" ? "before the work" : "after the work");

  return (event: Frame): string | undefined => {
    switch (event.type) {
      case "task.created":
        for (const { id, name } of event.data.checks) checks.set(id, name);
        return `${bold("Task")} ${line(event.data.title, 80)} ${dim(`(${event.data.model}, squad ${event.data.squad.id})`)}`;
      case "task.updated":
        return event.data.title === undefined ? undefined : `Title: ${line(event.data.title)}`;
      case "run.started": {
        const { sandbox, killed } = event.data;
        const ended = killed.length === 0 ? "" : `; ended ${killed.length} processes left by an earlier run`;
        return dim(`Started, sandbox ${sandbox.name}${ended}`);
      }
      case "run.stopped":
        return yellow(`Paused: ${line(event.data.reason)}; continues when the service is back`);
      case "run.stuck":
        return yellow(`No progress in step "${line(event.data.step, 40)}"; tried again`);
      case "run.paused":
        return yellow(`Paused: ${line(event.data.reason)}; continues automatically`);
      case "run.resumed":
        return dim("Continues");
      case "workspace.prepared": {
        const { kind, branch, baseCommit, root } = event.data;
        return kind === "worktree"
          ? `Working on a copy: branch ${line(branch ?? "", 80)} from ${(baseCommit ?? "").slice(0, 10)}`
          : `Working in place in ${line(root)}`;
      }
      case "agent.attached":
        return dim(`The external agent ${line(event.data.agent, 40)} is working (${line(event.data.about, 100)})`);
      case "message.received":
        if (event.data.retried !== undefined) return `${bold(line(event.data.source, 40))}: the request again`;
        return serviceSourceOf(event.data) === "checks"
          ? yellow("Failing checks sent back to the agent")
          : serviceSourceOf(event.data) === "contrast"
            ? yellow("Asked the agent for tests that fail without the change")
            : serviceSourceOf(event.data) === "sources"
              ? yellow("Asked the agent to read the sources it cites")
              : serviceSourceOf(event.data) === "output"
                ? yellow("Asked the agent for the output")
                : `${bold(line(event.data.source, 40))}: ${line(firstLine(textOf(event.data.text)))}`;
      case "reply.finished": {
        const { agent, text, failure, finish } = event.data;
        if (failure !== null) return red(line(failure.message.split(". ")[0] ?? ""));
        if (finish === "empty") return yellow(`${nameOfAgent(agent)} gave an empty answer and was asked again`);
        // An agent's last reply is its result, and an investigation has no other, so it is printed in full.
        if (finish === "end") return lastWords(bold(nameOfAgent(agent)), textOf(text), typeof text !== "string");
        const said = line(firstLine(textOf(text)), 200);
        return said === "" ? undefined : `${bold(nameOfAgent(agent))}: ${said}`;
      }
      case "reply.retried":
        return yellow(`${line(event.data.message)} (attempt ${event.data.attempt} of ${event.data.attempts})`);
      case "task.deferred":
        return yellow(`Queued until ${line(event.data.until, 40)}: ${line(event.data.reason)}`);
      case "model.switched":
        return yellow(`Switched to ${line(event.data.to, 80)}: ${line(event.data.reason)}`);
      case "tool.started":
        calls.set(event.data.callID, `${line(event.data.tool, 40)} ${line(argument(event.data.input), 100)}`.trim());
        return undefined;
      case "tool.finished": {
        const { callID, tool, outcome, exitCode, durationMs, output } = event.data;
        const call = calls.get(callID) ?? line(tool, 40);
        const good = outcome === "ok" && (exitCode ?? 0) === 0;
        // The review's own line follows.
        if (good && tool === "verdict") return undefined;
        const how = exitCode === null ? (outcome === "ok" ? "done" : outcome) : `exit ${exitCode}`;
        const result = `${how}, ${duration(durationMs)}`;
        const why = good ? "" : ` ${dim(line(whatFailed(withoutNotes(textOf(output))), 120))}`;
        return `${dim("·")} ${call}: ${good ? result : red(result)}${why}`;
      }
      case "dependencies.given": {
        const missing = event.data.folders.filter(({ how }) => how === "left-out");
        return missing.length === 0
          ? undefined
          : yellow(
              `Not in the workspace: ${line(missing.map(({ path, reason = "" }) => `${path} (${reason})`).join(", "), 300)}; see workspace.setup`,
            );
      }
      case "mcp.asked": {
        const { file, granted, names, problems } = event.data;
        const wrong =
          Object.values(problems).length === 0
            ? ""
            : `; ${Object.values(problems).length} of its entries cannot be used`;
        const said = `${line(file, 40)} requests MCP servers: ${line(names.join(", "), 200) || "none"}${wrong}`;
        return granted ? dim(said) : yellow(`${said}; grant them with \`sortie trust\``);
      }
      case "environment.given": {
        const { from, granted, secrets, image, problem } = event.data;
        const inside = image === undefined ? "" : `, in the image ${line(image, 200)}`;
        const has = inside + (secrets.length === 0 ? "" : `, with the secrets ${line(secrets.join(", "), 200)}`);
        if (problem !== null) return yellow(`The project's environment: ${line(problem, 300)}`);
        return granted
          ? dim(`Environment of the ${from === "operator" ? "configuration" : "project"}${has}`)
          : yellow(`The project requests an environment${has}; grant it with \`sortie trust\``);
      }
      case "mcp.listed": {
        const { server, count, problem } = event.data;
        const said = `MCP server ${line(server, 40)}: ${count} ${count === 1 ? "tool" : "tools"}`;
        return problem === null ? dim(said) : yellow(`${said}; ${line(problem, 300)}`);
      }
      case "setup.started":
        return dim(`Setting up the workspace: ${line(event.data.run, 120)}`);
      case "setup.finished": {
        const { state, durationMs, reason } = event.data;
        return state === "passed"
          ? dim(`Workspace set up, ${duration(durationMs)}`)
          : red(`Setup failed: ${line(reason ?? "no exit")}, ${duration(durationMs)}`);
      }
      case "permission.decided": {
        const { tool, subject, decision, rule, by } = event.data;
        // The ask and its answer print lines of their own.
        if (decision === "ask" || by !== "rule") return undefined;
        const verb = decision === "deny" ? red("Denied") : "Allowed";
        return `${verb}: ${line(`${tool} ${subject}`, 200)} ${dim(`(rule ${line(rule)}, ${event.data.origin})`)}`;
      }
      case "permissions.read":
        return dim(`The project's permission rules apply (${line(event.data.file)})`);
      case "ask.opened": {
        const { prompt, kind, options, askID, default: fallback } = event.data;
        const choices = kind !== "question" || options.length === 0 ? "" : ` (${line(options.join(", "), 300)})`;
        const stands = fallback === null ? "the agent decides" : `default "${line(fallback)}"`;
        const { expiresAt, passesAt } = event.data;
        if (passesAt !== undefined)
          return `${bold("Asks its Mission:")} ${line(prompt, 600)}${choices} ${dim(`${askID}; you at ${passesAt.slice(11, 16)} UTC`)}`;
        const until = expiresAt === null ? "until you answer" : `${stands} at ${expiresAt.slice(11, 16)} UTC`;
        return `${yellow(bold("Waiting for you:"))} ${line(prompt, 600)}${choices} ${dim(`${askID}; ${until}`)}`;
      }
      case "ask.answered": {
        const { decision, answer, by, source } = event.data;
        const said = line([decision, answer].filter((one) => one !== undefined).join(": ") || "no answer");
        if (source === "void") return dim("The change to approve has changed");
        return by === "caller" ? `${bold(line(source, 40))} answered: ${said}` : dim(`Nobody answered: ${said}`);
      }
      case "ask.passed":
        return `${yellow(bold("Waiting for you:"))} ${line(event.data.askID)} ${dim(event.data.by === "mission" ? "its Mission passed it on" : "its Mission did not answer")}`;
      case "ask.reminded":
        return `${yellow("Still waiting for you:")} ${line(event.data.askIDs.join(", "))}`;
      case "approval.moved":
        return dim(`The change to approve was moved onto another base unchanged, as ${event.data.commit.slice(0, 10)}`);
      case "note.written":
      // Earlier lines have said it already.
      case "message.passed":
      case "slice.ordered":
      case "session.ended":
      // The check's result follows with its own line.
      case "check.judged":
        return undefined;
      case "session.interrupted":
        return `${yellow("Interrupted")} by ${line(event.data.surface, 40)}: ${agents.get(event.data.sessionID) ?? "a session"} ${dim(line(event.data.reason))}`.trimEnd();
      case "artifact.recorded":
        return `Kept ${bold(line(event.data.filename, 80))}: ${line(event.data.title, 160)}`;
      case "slice.defined":
      case "slice.revised": {
        const { contract, sliceID } = event.data;
        slices.set(sliceID, line(contract.title, 80));
        const again = contract.revision === 1 ? "Planned" : `Revised (${contract.revision})`;
        return `${again}: ${line(contract.title, 80)} ${dim(line(contract.acceptance.join("; "), 160))}`;
      }
      case "slice.dropped":
        return `Dropped: ${titleOf(event.data.sliceID)} (${line(event.data.reason)})`;
      case "slice.settled":
        return `${green("Accepted")}: ${titleOf(event.data.sliceID)}`;
      case "session.started":
        agents.set(event.data.sessionID, line(event.data.agent, 40));
        return event.data.purpose === "review" ? undefined : `Delegated to ${bold(line(event.data.agent, 40))}`;
      case "review.finished": {
        const { verdict, reviewer, notes, sliceID } = event.data;
        const colour = verdict === "accepted" ? green : red;
        return `Review by ${line(reviewer, 40)}: ${colour(verdict)} ${titleOf(sliceID)}${notes === "" ? "" : dim(`: ${line(notes, 200)}`)}`;
      }
      case "conversation.compacted":
        return dim(`Older turns summarised: about ${event.data.before} tokens became ${event.data.after}`);
      case "budget.warned":
        return yellow(`Budget: ${event.data.used} of ${event.data.cap} used (${event.data.name})`);
      case "commit.described":
        return dim(event.data.said === null ? "No commit message" : `Commit: ${line(event.data.said.title, 80)}`);
      case "tree.committed": {
        const { files, insertions, deletions } = event.data;
        if (files === 0) return "Nothing changed in the project";
        return `Changed ${files} ${files === 1 ? "file" : "files"}, +${insertions} -${deletions}`;
      }
      case "change.denied":
        return yellow(
          `The change did not land: ${event.data.files
            .slice(0, 5)
            .map(({ path, rule }) => `${line(path, 120)} (${line(rule, 80)})`)
            .join(", ")}`,
        );
      case "checks.replaced":
        for (const { id, name } of event.data.checks) checks.set(id, name);
        return `Checks from now on: ${line(event.data.checks.map(({ name }) => name).join("; ") || "none", 400)}`;
      case "checks.found":
        for (const { id, name } of event.data.checks) checks.set(id, name);
        return dim("Running the project's own checks; those that passed before must still pass");
      case "task.abandoned":
        return yellow(`The agent gave up: ${line(event.data.why, 400)}`);
      case "output.given":
        return green("The output meets the schema");
      case "output.refused":
        return yellow(`No output: ${line(event.data.reason, 300)}`);
      case "check.started":
        return undefined;
      case "check.finished": {
        const { checkID, on, state, durationMs, reason, round } = event.data;
        const passed = state === "passed";
        const colour = passed ? green : on === "base" ? yellow : red;
        const again = on === "work" && round > 1 ? `, round ${round}` : "";
        const why = passed || reason === null ? "" : ` (${line(reason)})`;
        return `Check ${bold(nameOf(checkID))} ${when(on)}: ${colour(state)}${why}, ${duration(durationMs)}${again}`;
      }
      case "contrast.finished": {
        const { result, command, reason, durationMs } = event.data;
        const words = {
          proves: green("failed before, passes now"),
          same: yellow("also passes on the base"),
          "cannot-run": dim("cannot tell"),
        };
        const why = reason === null ? "" : ` (${line(reason, 120)})`;
        return `Proof by contrast ${bold(line(command ?? "", 120))}: ${words[result]}${why}, ${duration(durationMs)}`;
      }
      case "checkpoint.kept":
        return undefined;
      case "workspace.moved":
        return yellow(
          `The node ${line(event.data.from, 60)} is gone: ${line(event.data.to, 60)} continues${event.data.lost === 0 ? "" : `, without ${event.data.lost} calls that were not kept`}`,
        );
      case "workspace.rebased":
        return `Moved the change onto the project's commit ${event.data.baseCommit.slice(0, 10)}`;
      case "landing.conflicted":
        return yellow(
          `Conflict with the project (round ${event.data.round}): ${line(event.data.paths.join(", "), 120)}`,
        );
      case "landing.started":
        return undefined;
      case "landing.withdrawn":
        return yellow(`Landing withdrawn: ${line(event.data.reason)}`);
      case "landing.finished": {
        const { commit, ref, kept, merged = [] } = event.data;
        const later = kept.length === 0 ? "" : `, your later edits kept in ${kept.length} files`;
        const edits = `${merged.length === 0 ? "" : `, merged with your edits in ${merged.length} ${merged.length === 1 ? "file" : "files"}`}${later}`;
        return green(`Landed commit ${commit} on ${line(ref.replace("refs/heads/", ""), 100)}${edits}`);
      }
      case "landing.proposed":
        return green(`Pull request ${event.data.number} ${event.data.state}: ${line(event.data.url, 400)}`);
      case "mission.created":
        return `${bold("Mission")} ${line(event.data.title, 80)} ${dim(`(${event.data.missionID}, ${event.data.model})`)}`;
      case "mission.woken":
        return event.data.by === "time" ? dim("Woken at the time it set") : undefined;
      case "mission.updated":
        return event.data.title === undefined ? undefined : `Title: ${line(event.data.title)}`;
      case "mission.aborted":
        return yellow(`Aborted by ${line(event.data.surface, 40)}: stopped until the next wake`);
      case "mission.finished": {
        const { outcome, summary, wakeAt } = event.data;
        const colour = outcome === "done" ? green : yellow;
        const again = wakeAt === null ? "" : dim(` (resumes at ${wakeAt.slice(0, 16)} UTC)`);
        return `${colour(bold(outcome === "done" ? "Done" : outcome === "blocked" ? "Blocked" : "Waits"))}: ${line(summary, 600)}${event.data.verified === false ? yellow(" (not verified)") : ""}${again}`;
      }
      case "mission.verified": {
        const { commit, results } = event.data;
        const red = results.filter(({ state }) => state !== "passed");
        if (red.length === 0) return green(`Checks passed on ${commit.slice(0, 10)}: ${results.length}`);
        const names = red.map(({ name, reason }) => `${name}${reason === null ? "" : ` (${reason})`}`).join(", ");
        return yellow(`Checks red on ${commit.slice(0, 10)}: ${line(names, 400)}`);
      }
      case "mission.judging":
        return `${bold("Says that it is done")}, the whole is judged first: ${line(event.data.summary, 600)}`;
      case "mission.proposed": {
        const { pullRequest, reason } = event.data;
        if (pullRequest === null) return yellow(`No pull request: ${line(reason ?? "", 400)}`);
        return green(`Pull request ${pullRequest.number} ${pullRequest.state}: ${line(pullRequest.url, 400)}`);
      }
      case "mission.branched":
        return `Its branch is ${bold(line(event.data.branch, 100))}`;
      case "mission.unmerged": {
        const { reason } = event.data;
        return reason === null ? dim("Nothing is left to merge") : yellow(`Not merged: ${line(reason, 400)}`);
      }
      case "task.asked":
        return `${bold("Asked")} by ${line(event.data.title, 80)}: ${line(event.data.prompt, 600)}`;
      case "task.overdue":
        return dim(
          `Still runs: ${line(event.data.title, 80)}${event.data.doing === null ? "" : ` (${line(event.data.doing, 200)})`}`,
        );
      case "task.answered":
      case "task.messaged":
      case "task.watched":
      case "mission.reminded":
      case "task.reopened":
      case "task.reserved":
        return undefined;
      case "mission.paused": {
        const { name, used, cap } = event.data;
        return yellow(`The Mission's budget is used up: ${used} of ${cap} (${name})`);
      }
      case "mission.stalled":
        return yellow(`Stalled: ${line(event.data.reason, 600)}`);
      case "mission.waiting":
        return `Waiting until ${event.data.until.slice(0, 16)} UTC: ${line(event.data.reason, 600)}`;
      case "phase.written": {
        const { id, title, after } = event.data.phase;
        return `${bold("Plan")}${byUser(event.data)}: ${line(id, 40)}${after.length === 0 ? "" : ` (after ${line(after.join(", "), 200)})`}: ${line(title, 120)}`;
      }
      case "phase.dropped":
        return `${bold("Plan")}${byUser(event.data)}: dropped ${line(event.data.phase, 40)}`;
      case "plan.ordered":
        return undefined;
      case "plan.written":
        return `${bold("Plan")}: ${line(
          event.data.phases
            .map(({ id, after }) => `${id}${after.length === 0 ? "" : ` (after ${after.join(", ")})`}`)
            .join(", "),
          300,
        )}`;
      case "task.dispatched": {
        const { title, squad, taskID, phase, production, general, merge } = event.data;
        if (merge !== undefined)
          return `${bold("Merging")} ${line(merge.branch, 100)} into ${line(merge.into, 100)} ${dim(`(${taskID})`)}`;
        const why = general === undefined ? "" : dim(`, a general squad: ${line(general, 200)}`);
        return production === null
          ? `${bold("Dispatched")} ${line(title, 80)} ${dim(`(phase ${phase}, squad ${squad.id}, ${taskID})`)}${why}`
          : `${bold("Creating a squad")}: ${line(production.squad, 64)} ${dim(`(phase ${phase}, ${taskID})`)}`;
      }
      case "task.ended": {
        const { title, outcome, error, landedCommit, verdict } = event.data;
        if (verdict !== undefined)
          return `${(verdict.verdict === "accepted" ? green : yellow)(`The whole is ${verdict.verdict}`)}: ${line(verdict.notes, 600)}`;
        const colour = outcome === "completed" ? green : red;
        const landed = landedCommit === null ? "" : ` as ${landedCommit.slice(0, 10)}`;
        return `${colour(`Task ${outcome}`)}: ${line(title, 80)}${landed}${error === undefined ? "" : ` ${dim(line(error, 200))}`}`;
      }
      case "squad.reconciled":
        return green(`The squad ${line(event.data.squad.id, 64)} is in the catalog, exactly as created`);
      case "squad.refused":
        return red(`The squad of phase ${event.data.phase} was not used: ${line(event.data.reason)}`);
      case "squad.staged":
        return `Staged the squad ${line(event.data.squad.id, 64)} ${dim(`(${event.data.files.length} files)`)}`;
      case "squad.installing":
        return undefined;
      case "squad.installed":
        return green(`Installed the squad ${line(event.data.squad.id, 64)} ${event.data.squad.version} in the project`);
      case "git.tampered":
        return red(
          `Git's own files were changed by a command: ${line(event.data.files.map(({ path }) => path).join(", "))}`,
        );
      case "cancel.requested":
        return yellow(`Cancel requested by ${line(event.data.surface, 40)}`);
      case "task.settled":
        return undefined;
    }
  };
};

/** Marks a change of a Mission's plan that its user made, and not its agent. */
const byUser = ({ callID }: { callID: string | null }): string => (callID === null ? ", by the user" : "");

/** The output without the notes that the service appends. */
const withoutNotes = (output: string): string => output.replace(/(?:\n\n\[[^[\]]*\])+\s*$/, "");

/** The line that says what failed, or the last line when none does. */
const whatFailed = (output: string): string => {
  const lines = clean(output).trimEnd().split("\n");
  return lines.at(failingLineOf(lines.join("\n"))) ?? "";
};

/** The whole text: behind the speaker if it is a single line, otherwise below. */
const lastWords = (who: string, text: string, isCut: boolean): string | undefined => {
  const whole = clean(text).trim();
  if (whole === "") return undefined;
  const more = isCut ? "\n… (the rest is in the Task's messages)" : "";
  return whole.includes("\n") || isCut
    ? `${who}:\n${indented(whole + more)}`
    : `${who}: ${whole.replaceAll("\t", " ")}`;
};

/** The arguments that show the subject of a call. */
const argument = (input: unknown): string => {
  if (typeof input !== "object" || input === null) return "";
  const given = input as Record<string, unknown>;
  const telling = ["command", "action", "pattern", "path", "paths", "from", "to"].flatMap((name) => given[name]);
  return telling.filter((value) => typeof value === "string").join(" ");
};
