import { z } from "zod";
import type { ModelEntry } from "./provider/trait.ts";

/**
 * Finds language model servers on this machine, at their usual ports. A server is identified by an answer that only it
 * gives, never by its port. What is found is offered to the operator, never used automatically.
 */

export type Found = {
  /** The id to use for the provider's entry. */
  id: string;
  name: string;
  version: string | null;
  baseURL: string;
  models: ModelEntry[];
};

type Server = {
  id: string;
  name: string;
  port: number;
  look: (get: Get) => Promise<Pick<Found, "version" | "models">>;
};
/** Parses the JSON answer of a path; throws when it is not what this kind of server answers. */
type Get = <T>(path: string, schema: z.ZodType<T>) => Promise<T>;

const name = z.string().regex(/^\S{1,200}$/);
const version = z.object({ version: z.string().max(100) });
const tokens = z.number().int().min(1_000);
const listed = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z.object({ data: z.array(z.object({ id: name, ...shape })).max(1_000) });

const entry = (id: string, contextWindow: number | undefined): ModelEntry =>
  contextWindow === undefined ? { id } : { id, contextWindow };

export const servers: readonly Server[] = [
  {
    id: "ollama",
    name: "Ollama",
    port: 11434,
    async look(get) {
      const tags = z.object({ models: z.array(z.object({ name, digest: z.string() })).max(1_000) });
      const [about, { models }] = await Promise.all([get("/api/version", version), get("/api/tags", tags)]);
      return { version: about.version, models: models.map((model) => ({ id: model.name })) };
    },
  },
  {
    id: "lmstudio",
    name: "LM Studio",
    port: 1234,
    async look(get) {
      const kinds = z.enum(["llm", "vlm", "embeddings"]);
      const loaded = { loaded_context_length: tokens.optional().catch(undefined) };
      const { data } = await get("/api/v0/models", listed({ type: kinds, state: z.string(), ...loaded }));
      const models = data.filter(({ type }) => type !== "embeddings");
      return {
        version: null,
        models: models.map(({ id, type, loaded_context_length }) => ({
          ...entry(id, loaded_context_length),
          ...(type === "vlm" ? { images: true } : {}),
        })),
      };
    },
  },
  {
    id: "llamacpp",
    name: "llama.cpp",
    port: 8080,
    async look(get) {
      const props = z.object({
        default_generation_settings: z.object({ n_ctx: tokens.optional().catch(undefined) }),
        total_slots: z.number(),
        build_info: z.string().max(100).optional(),
      });
      const [about, { data }] = await Promise.all([get("/props", props), get("/v1/models", listed({}))]);
      const { n_ctx } = about.default_generation_settings;
      return { version: about.build_info ?? null, models: data.map(({ id }) => entry(id, n_ctx)) };
    },
  },
  {
    id: "vllm",
    name: "vLLM",
    port: 8000,
    async look(get) {
      const shape = { owned_by: z.literal("vllm"), max_model_len: tokens.optional().catch(undefined) };
      const [about, { data }] = await Promise.all([get("/version", version), get("/v1/models", listed(shape))]);
      return { version: about.version, models: data.map((model) => entry(model.id, model.max_model_len)) };
    },
  },
];

const longestAnswer = 4 * 1024 * 1024;

/** Probes all at the same time; a server slower than `withinMs` counts as absent. `ports` replace the usual ones. */
export const detectServers = async (
  options: { withinMs?: number; ports?: Readonly<Record<string, number>> } = {},
): Promise<Found[]> => {
  const signal = AbortSignal.timeout(options.withinMs ?? 1_500);
  const found = await Promise.all(
    servers.map(async ({ id, name: title, port, look }): Promise<Found[]> => {
      const origin = `http://127.0.0.1:${options.ports?.[id] ?? port}`;
      const get: Get = async (path, schema) => {
        const response = await fetch(`${origin}${path}`, { signal, redirect: "error" });
        if (!response.ok) throw new Error(`Expected ${path} to be answered, got ${response.status}`);
        return schema.parse(JSON.parse(await textOf(response)));
      };
      try {
        const { version: said, models } = await look(get);
        return [{ id, name: title, version: said, baseURL: `${origin}/v1`, models: models.slice(0, 100) }];
      } catch {
        // Nothing listens there, it is another program, or it is too slow.
        return [];
      }
    }),
  );
  return found.flat();
};

const textOf = async (response: Response): Promise<string> => {
  let text = "";
  const decoder = new TextDecoder();
  for await (const piece of response.body ?? []) {
    text += decoder.decode(piece as Uint8Array, { stream: true });
    if (text.length > longestAnswer) throw new Error(`Expected at most ${longestAnswer} characters.`);
  }
  return text;
};
