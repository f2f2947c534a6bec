import type { Network } from "../../process/network/allow-list.ts";

/** Servers of the Model Context Protocol whose tools agents have, as the operator named them. */

export type McpServer =
  | {
      kind: "stdio";
      command: string;
      args: readonly string[];
      /** All that it gets besides the environment of every command. */
      env: Readonly<Record<string, string>>;
      network: Network;
    }
  | {
      kind: "http";
      url: string;
      headers: Readonly<Record<string, string>>;
      /** OAuth for machines; undefined: none. */
      auth?: McpAuth | undefined;
    };

/** The client credentials that `issuer`, and no other, gives a token for. */
export type McpAuth = { issuer: string; clientID: string; clientSecret: string; scope?: string | undefined };

export type McpServers = Readonly<Record<string, McpServer>>;

/** A tool as its server lists it, cut to what agents may read. */
export type ListedTool = {
  /** `mcp__<server>__<tool>`, in characters that every provider takes. */
  name: string;
  /** As the server knows it. */
  tool: string;
  description: string;
  parameters: object;
};

/** What came of asking a server for its tools. `problem`: why there are none, or not all. */
export type Listing = { tools: ListedTool[]; problem: string | null };

/** What a call gave: bounded by the connection, not yet by what a model reads. */
export type McpAnswer = { ok: boolean; text: string };

/** A server that is not there, does not answer, or says too much. In words for the model, about this server alone. */
export class McpFailure extends Error {}

export const mcpPrefix = "mcp__";
