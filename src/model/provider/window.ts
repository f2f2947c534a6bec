/**
 * The context windows of well-known open models, in tokens, as their makers publish them: what the weights support
 * without further settings (YaRN and the like). A server may be started with less, which only the operator knows.
 * Checked against the catalogue of models.dev (July 2026), model cards and Ollama's library. Where sources differ, the
 * smaller one counts, because a window that is too large fails a request, and one that is too small only summarises
 * early.
 */

/** The first match counts; special names stand before their family. */
const published: readonly (readonly [name: RegExp, tokens: number])[] = [
  [/gpt-oss/, 131_072],
  [/qwen3-coder|qwen3-next|qwen3-vl|qwen3\.[5-9]|qwen3-(4b|30b-a3b|235b-a22b)-((instruct|thinking)-)?2507/, 262_144],
  [/qwen3-omni/, 65_536],
  [/qwen3-embedding/, 32_768],
  [/qwen3/, 40_960],
  [/qwen-?2[.-]5|qwq/, 32_768],
  [/llama-?4-?:?scout/, 10_485_760],
  [/llama-?4-?:?maverick/, 1_048_576],
  [/llama-?3[.-][123](?![\db])/, 131_072],
  [/deepseek-r1-distill/, 131_072],
  [/llama-?3/, 8_192],
  [/deepseek-v4/, 1_048_576],
  [/deepseek-(v3|r1)/, 131_072],
  [/glm-5\.2/, 1_000_000],
  [/glm-4\.5v/, 65_536],
  [/glm-4\.(5|6v)/, 131_072],
  [/glm-(4\.[67]|5)/, 202_752],
  [/kimi-k2((-instruct)?-0905|-thinking|\.[5-9])/, 262_144],
  [/kimi-k2/, 131_072],
  [/minimax-m3/, 512_000],
  [/minimax-m2/, 196_608],
  [/devstral-(small-)?2(?!\d)|devstral-(small-)?2512/, 262_144],
  [
    /mistral-large-?3|mistral-large-2512|mistral-small-?4(?!\d)|mistral-small-2603|ministral-?3(?!b)|ministral-\d+b-2512/,
    262_144,
  ],
  [/devstral|mistral-nemo|mistral-small-?3\.[12]|mistral-small-250[36]|mistral-large|magistral-small-2509/, 131_072],
  [/mixtral-8x22b/, 65_536],
  [/codestral|mistral-small|mixtral-8x7b|mistral-7b/, 32_768],
  [/magistral/, 40_960],
  [/gemma-?3n|gemma-?3-?:?1b/, 32_768],
  [/gemma-?3/, 131_072],
  [/gemma-?4-?:?e\d/, 131_072],
  [/gemma-?4/, 262_144],
  [/gemma-?2/, 8_192],
  [/nemotron-3-(nano|super|ultra)/, 262_144],
  [/nemotron-nano-9b-v2/, 131_072],
  [/seed-oss/, 524_288],
  [/mimo-v2\.5/, 1_048_576],
  [/mimo-v2-flash|step-3\.5-flash/, 262_144],
  [/phi-?4-mini/, 131_072],
  [/phi-?4/, 16_384],
  [/granite-?4/, 131_072],
  [/olmo-?3/, 65_536],
];

/**
 * undefined: the name is unknown. The names that servers use are understood as well: `llama3.1:8b`,
 * `Qwen/Qwen3-8B-GGUF`.
 */
export const publishedWindow = (modelID: string): number | undefined => {
  const name = modelID.toLowerCase().replaceAll("_", "-");
  return published.find(([pattern]) => pattern.test(name))?.[1];
};
