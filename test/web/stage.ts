import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, TestRunner } from "vitest";
import { browserHere, countBlind } from "../harness/browser.ts";
import { built } from "../harness/built.ts";
import { type MockProvider, type MockScript, startMockProvider } from "../harness/double/mock-provider.ts";
import { temporary } from "../harness/project.ts";
import { startService, type TestService } from "../harness/service.ts";
import { launch, watch } from "./browser.ts";

/** What a test file of the page stands on: a service, a model where it needs one, and Chromium with one page. */

export type Stage = {
  service: TestService;
  /** Its replies are the script's; without a script nothing asks it. */
  provider: MockProvider;
  browser: Browser;
  context: BrowserContext;
  page: Page;
  /** Of that page: see `watch`. */
  complaints: string[];
};

export type Setting = {
  /** What stands in the name of the temporary folder. */
  name: string;
  /** Whether this machine has what the tests need: as given to `inBrowser`. */
  able?: boolean;
  width?: number;
  height?: number;
  model?: MockScript;
  /** Beside `providers`, and over the model: `mock/large` with a script, the built-in rules without. */
  config?: (root: string, provider: MockProvider) => Record<string, unknown> | Promise<Record<string, unknown>>;
  env?: Record<string, string>;
  /** Takes the place of the usual service, and is ended by `end`. */
  serve?: () => Promise<TestService>;
  ready: (stage: Stage) => void | Promise<void>;
  /** What the file opened besides, once the browser and the service are closed. */
  end?: () => unknown;
};

export const viewport = { width: 1280, height: 800 };

/** Tests that need the browser. Without one they are skipped, and counted loudly at the end of the run. */
export const inBrowser = (name: string, tests: () => void, able = browserHere !== undefined): void => {
  describe.skipIf(!able)(name, () => {
    tests();
    if (!able) countBlind(TestRunner.getCurrentSuite().tasks.length);
  });
};

/** Sets the file's stage up before its tests and takes it down after them. Gives its folder. */
export const onStage = (setting: Setting): string => {
  const { able = browserHere !== undefined, width = viewport.width, height = viewport.height } = setting;
  const root = temporary(`sortie-web-${setting.name}-`);
  const ends: (() => unknown)[] = [() => root[Symbol.dispose](), () => setting.end?.()];
  const serve = async (provider: MockProvider): Promise<TestService> => {
    const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none", models: ["large"] };
    const model = setting.model === undefined ? "builtin/rules-1" : "mock/large";
    const more = await setting.config?.(root.path, provider);
    const config = join(root.path, "config.jsonc");
    writeFileSync(config, JSON.stringify({ providers: { mock }, model, ...more }));
    const service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config, ...setting.env });
    ends.push(() => service[Symbol.asyncDispose]());
    return service;
  };
  beforeAll(async () => {
    if (!able) return;
    await built();
    const provider = await startMockProvider(setting.model ?? {});
    ends.push(() => provider.close());
    const service = await (setting.serve?.() ?? serve(provider));
    ends.push(() => provider.release());
    const browser = await launch();
    ends.push(() => browser.close());
    const context = await browser.newContext({ reducedMotion: "reduce", viewport: { width, height } });
    context.setDefaultTimeout(15_000);
    const page = await context.newPage();
    await setting.ready({ service, provider, browser, context, page, complaints: watch(page, service.url) });
  }, 150_000);
  afterAll(async () => {
    for (const end of ends.toReversed()) await end();
  });
  return root.path;
};
