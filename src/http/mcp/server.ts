import { createMcpHandler, ProtocolError, ProtocolErrorCode, Server } from "@modelcontextprotocol/server";
import { z } from "zod";
import type { Log } from "../../log.ts";
import { withArgumentsWithin } from "../../protocol/task/saved-call.ts";
import { issuesOf, quote } from "../../protocol/issue.ts";
import { invalid } from "../request/parse.ts";
import { failureOf } from "../response/response.ts";
import { refusalText } from "./error.ts";
import { createMissionTools } from "./mission.ts";
import { createTaskTools } from "./task.ts";
import { type Caller, placeOf, type Tool, type ToolDeps } from "./tool.ts";

/**
 * The MCP server, loaded with the first request. Nothing is kept between requests (each gets its own server object), so
 * clients do not notice a restart or another instance over the same store.
 */

export type Mcp = (request: Request, message: unknown, caller: Caller) => Promise<Response>;

const instructions =
  "Sortie carries out work in Git projects with agents of its own, checks the result itself, and lands only what passed. " +
  "Hand over one piece of work with task_create, or a goal of many pieces with mission_wake; both return at once. " +
  "Then call task_status or mission_status with waitSeconds 30 until it has ended, and do what `next` says. " +
  "Steer with task_message, stop with task_cancel. What is refused has changed nothing and says what to do.";

export const createMcp = (deps: ToolDeps & { version: string; log: Log }): Mcp => {
  const tools = [...createTaskTools(deps), ...createMissionTools(deps)];
  const byName = new Map(tools.map((one) => [one.name, one]));
  const list = tools.map(({ name, title, description, annotations, shown, output }) => ({
    name,
    title,
    description,
    inputSchema: jsonOf(shown),
    outputSchema: jsonOf(output),
    annotations,
  }));

  const call = async (tool: Tool, given: unknown, caller: Caller) => {
    try {
      const parsed = tool.input.safeParse(given);
      if (!parsed.success) throw invalid(issuesOf(parsed.error.issues, tool.input, given, "arguments"));
      const found = await tool.run(parsed.data, caller);
      return { content: [{ type: "text" as const, text: JSON.stringify(found) }], structuredContent: found };
    } catch (error) {
      const { body, headers } = failureOf(error, caller.requestID, deps.log);
      return {
        content: [{ type: "text" as const, text: refusalText(body, headers["retry-after"]) }],
        isError: true,
      };
    }
  };

  /** The saved requests of the connection's project; a connection without a project has none. */
  const savedOf = async (caller: Caller) => {
    const { query, header } = caller;
    return query === undefined && header === undefined ? [] : deps.requests(placeOf(undefined, caller));
  };

  const serverFor = (caller: Caller): Server => {
    const server = new Server(
      { name: "sortie", title: "Sortie", version: deps.version },
      { capabilities: { tools: {}, prompts: {} }, instructions },
    );
    server.setRequestHandler("tools/list", () => ({ tools: list }));
    server.setRequestHandler("tools/call", ({ params: { name, arguments: given } }) => {
      const tool = byName.get(name);
      if (tool !== undefined) return call(tool, given ?? {}, caller);
      const names = [...byName.keys()].join(", ");
      throw new ProtocolError(
        ProtocolErrorCode.InvalidParams,
        `Expected one of the tools ${names}; got ${quote(name)}.`,
      );
    });
    server.setRequestHandler("prompts/list", async () => ({
      prompts: (await savedOf(caller)).map(({ name, description, arguments: hint }) => ({
        name,
        description,
        arguments: [{ name: "arguments", description: hint ?? "What is to be put into it", required: false }],
      })),
    }));
    server.setRequestHandler("prompts/get", async ({ params: { name, arguments: given = {} } }) => {
      const saved = await savedOf(caller);
      const found = saved.find((one) => one.name === name);
      if (found === undefined)
        throw new ProtocolError(
          ProtocolErrorCode.InvalidParams,
          `Expected one of the project's saved requests (${saved.map((one) => one.name).join(", ") || "there is none"}); got ${quote(name)}.`,
        );
      const most = deps.limits.requestBytes;
      const request = withArgumentsWithin(found.text, given["arguments"] ?? "", most);
      if (request === undefined)
        throw new ProtocolError(
          ProtocolErrorCode.InvalidParams,
          `Expected arguments with which the request has at most ${most} characters, got more.`,
        );
      const text = `Hand this over to Sortie with task_create, as \`request\`, word for word:\n\n${request}`;
      return { description: found.description, messages: [{ role: "user", content: { type: "text", text } }] };
    });
    return server;
  };

  return (request, message, caller) => {
    const { fetch } = createMcpHandler(() => serverFor(caller), {
      // There are no subscriptions, because no list ever changes.
      maxSubscriptions: 0,
      onerror: (error) => deps.log.debug({ requestID: caller.requestID, err: error }, "MCP request refused"),
    });
    return fetch(request, { parsedBody: message });
  };
};

/**
 * A tool's JSON schema without references, which not every client follows, and without keywords that do not help a
 * model.
 */
const jsonOf = (schema: z.ZodObject) => {
  const metadata = z.registry<Record<string, unknown>>();
  metadata.get = (one) => {
    const { id: _, ...rest } = z.globalRegistry.get(one) ?? {};
    return rest;
  };
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io: "input",
    metadata,
    override({ jsonSchema }) {
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
    },
  });
  return json as { type: "object" };
};
