import { expect, test } from "vitest";
import { publishedWindow } from "../../src/model/provider/window.ts";

/**
 * Names as Hugging Face, Ollama, LM Studio and vLLM have them, with the windows of models.dev (July 2026) and of model
 * cards.
 */
const windows: Record<number, string[]> = {
  8_192: ["meta-llama/Meta-Llama-3-8B-Instruct", "llama3:8b", "gemma-2-27b-it", "gemma2:9b"],
  16_384: ["microsoft/phi-4", "phi4:14b"],
  32_768: [
    "Qwen/Qwen2.5-Coder-32B-Instruct",
    "qwen2.5-coder:7b",
    "qwen-2.5-72b-instruct",
    "google/gemma-3n-E4B-it",
    "gemma3n:e4b",
    "gemma3:1b",
    "mistralai/Mistral-Small-24B-Instruct-2501",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "mistral-7b-instruct-v0.3",
  ],
  40_960: ["Qwen/Qwen3-8B-GGUF", "qwen3:30b", "Qwen/Qwen3-235B-A22B", "mistralai/Magistral-Small-2506"],
  65_536: ["zai-org/GLM-4.5V", "mixtral-8x22b-instruct", "allenai/Olmo-3-32B-Think"],
  131_072: [
    "openai/gpt-oss-20b",
    "gpt-oss:120b",
    "llama3.1:8b",
    "meta-llama/Llama-3.3-70B-Instruct",
    "dracarys-llama-3_1-70b-instruct",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-r1:671b",
    "DeepSeek-R1-Distill-Llama-70B",
    "zai-org/GLM-4.5-Air",
    "zai-org/GLM-4.6V",
    "moonshotai/Kimi-K2-Instruct",
    "mistralai/Devstral-Small-2507",
    "mistral-small3.2:24b",
    "mistralai/Mistral-Large-Instruct-2411",
    "mistralai/magistral-small-2509",
    "gemma3:27b",
    "google/gemma-4-E4B-it",
    "gemma4:e2b",
    "granite4:3b",
    "nvidia-nemotron-nano-9b-v2",
    "Llama-3_3-Nemotron-Super-49B-v1_5",
  ],
  196_608: ["MiniMaxAI/MiniMax-M2", "minimax-m2.5"],
  202_752: ["zai-org/GLM-4.6", "glm-4.7-flash", "zai-org/GLM-5", "glm-5.1"],
  262_144: [
    "Qwen/Qwen3-Coder-480B-A35B-Instruct",
    "qwen3-coder:30b",
    "qwen/qwen3-30b-a3b-2507",
    "Qwen/Qwen3-235B-A22B-Thinking-2507",
    "Qwen/Qwen3.5-397B-A17B",
    "qwen3.6-27b",
    "kimi-k2-thinking",
    "moonshotai/Kimi-K2.6",
    "mistralai/Devstral-2-123B-Instruct-2512",
    "devstral-small-2:24b",
    "devstral-2512",
    "mistralai/Mistral-Small-4-119B-2603",
    "mistral-large-3:675b",
    "ministral-3:8b",
    "gemma4:31b",
    "google/gemma-4-26b-a4b-it",
    "nemotron-3-nano:30b",
    "XiaomiMiMo/MiMo-V2-Flash",
    "stepfun-ai/Step-3.5-Flash",
  ],
  512_000: ["MiniMaxAI/MiniMax-M3"],
  524_288: ["ByteDance-Seed/Seed-OSS-36B-Instruct"],
  1_000_000: ["zai-org/GLM-5.2-FP8"],
  1_048_576: ["llama-4-maverick-17b-128e-instruct-fp8", "deepseek-ai/DeepSeek-V4-Pro", "XiaomiMiMo/MiMo-V2.5"],
  10_485_760: ["meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama4:scout"],
};

test("well-known open models, by whichever name a server has them", () => {
  const found = Object.values(windows)
    .flat()
    .map((name) => [name, publishedWindow(name)]);
  expect(found).toEqual(
    Object.entries(windows).flatMap(([window, names]) => names.map((name) => [name, Number(window)])),
  );
});

test("control: of a name of somebody's own nothing is known", () => {
  expect(["our-finetune", "llama", "mistral-next", "ministral-3b-latest"].map(publishedWindow)).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});
