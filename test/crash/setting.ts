import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeProject } from "../harness/project.ts";

export type Setting = { dataDir: string; project: string; env: Record<string, string> };

/** A project below `root`, and what a service is started with: a data folder, and a configuration with one model. */
export const settingIn = (
  root: string,
  baseURL: string,
  files: Record<string, string> = { "a.txt": "one\n" },
  more: (project: string) => Record<string, unknown> = () => ({}),
): Setting => {
  const dataDir = join(root, "data");
  const config = join(root, "config.jsonc");
  const project = makeProject(join(root, "project"), files);
  const mock = { kind: "openai-compatible", baseURL, apiKey: "none" };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers: { mock }, ...more(project) }));
  // The last is for agents that are programs of their own.
  const env = { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root, MODEL_URL: baseURL };
  return { dataDir, project, env };
};
