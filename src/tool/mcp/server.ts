import type { Network } from "../../process/network/allow-list.ts";

/** MCP servers whose tools agents have, as configured by the operator. */

export type McpServer =
  | {
      kind: "stdio";
      command: string;
      args: readonly string[];
      /** The only variables it gets in addition to the environment of every command. */
      env: Readonly<Record<string, string>>;
      network: Network;
    }
  | {
      kind: "http";
      url: string;
      headers: Readonly<Record<string, string>>;
      /** OAuth client credentials; undefined: none. */
      auth?: McpAuth | undefined;
    };

/** Client credentials, to be sent to `issuer` only. */
export type McpAuth = { issuer: string; clientID: string; clientSecret: string; scope?: string | undefined };

export type McpServers = Readonly<Record<string, McpServer>>;

/** A tool as its server lists it, reduced to what agents may read. */
export type ListedTool = {
  /** `mcp__<server>__<tool>`, in characters that every provider accepts. */
  name: string;
  /** The server's own name for the tool. */
  tool: string;
  description: string;
  parameters: object;
};

/** The result of asking a server for its tools. `problem`: why there are none, or not all. */
export type Listing = { tools: ListedTool[]; problem: string | null };

/** The result of a call: limited by the connection, not yet by what a model can read. */
export type McpAnswer = { ok: boolean; text: string };

/**
 * A server that is unreachable, does not answer, or sends too much. The message is for the model, about this server
 * alone.
 */
export class McpFailure extends Error {}

export const mcpPrefix = "mcp__";
