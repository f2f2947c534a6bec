/**
 * The context windows of well-known open models, in tokens, as their makers publish them: what the weights hold without
 * settings of their own. A server may be started with less, which only the operator knows.
 */

/** The first that matches counts; special ones stand before their family. */
const published: readonly (readonly [name: RegExp, tokens: number])[] = [
  [/gpt-oss/, 131_072],
  [/qwen3-coder|qwen3-next|qwen3-vl|qwen3\.[5-9]|qwen3-(4b|30b-a3b|235b-a22b)-(instruct|thinking)-2507/, 262_144],
  [/qwen3/, 40_960],
  [/qwen2\.5-coder|qwen2\.5|qwq/, 32_768],
  [/llama-?4-scout/, 10_485_760],
  [/llama-?4-maverick/, 1_048_576],
  [/llama-?3\.[123]/, 131_072],
  [/llama-?3/, 8_192],
  [/deepseek-(v3\.[12]|v3|r1)(?!-distill)/, 131_072],
  [/glm-(4\.[67]|5)/, 202_752],
  [/glm-4\.5/, 131_072],
  [/kimi-k2(-instruct)?(-0905|-thinking|\.5)/, 262_144],
  [/kimi-k2/, 131_072],
  [/devstral-(small-)?2(?!\d)/, 262_144],
  [/devstral|mistral-nemo|mistral-small-?3\.[12]|mistral-large/, 131_072],
  [/codestral|mistral-small|mixtral-8x7b|mistral-7b/, 32_768],
  [/magistral/, 40_960],
  [/gemma-?3-?:?1b/, 32_768],
  [/gemma-?3/, 131_072],
];

/** undefined: the name is not known. Names of servers are read as their makers': `llama3.1:8b`, `Qwen/Qwen3-8B-GGUF`. */
export const publishedWindow = (modelID: string): number | undefined => {
  const name = modelID.toLowerCase().replaceAll("_", "-");
  return published.find(([pattern]) => pattern.test(name))?.[1];
};
