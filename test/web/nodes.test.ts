import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { freshSchema, postgresURL } from "../harness/postgres.ts";
import { startService, type TestService } from "../harness/service.ts";
import { violations } from "./browser.ts";
import { inBrowser, onStage } from "./stage.ts";

/** Several nodes on the page: how each is, and in what it differs. */

let page: Page;
let alone: TestService;
const root = onStage({
  name: "nodes",
  width: 1440,
  height: 900,
  ready: (stage) => void ({ page, service: alone } = stage),
});

inBrowser("nodes", () => {
  test.skipIf(postgresURL === undefined)(
    "the doctor lists them, with what differs; control: a service alone has none",
    async () => {
      await using scope = new AsyncDisposableStack();
      const schema = scope.use(freshSchema(postgresURL ?? ""));
      await schema.create();
      const url = new URL(postgresURL ?? "");
      url.searchParams.set("options", `-c search_path=${schema.name},public`);
      const start = (name: string, more: object = {}) =>
        startService(join(root, name), { SERVICE_DATABASE_URL: url.href, SERVICE_NODE: name, ...more });
      const a = scope.use(await start("a"));
      scope.use(await start("b", { SERVICE_ROLE: "worker" }));
      await page.goto(`${a.url}/ui/doctor`);
      const rows = page.getByRole("region", { name: "Nodes" }).getByRole("row");
      await rows
        .filter({ hasText: "(this one)" })
        .filter({ hasText: "all" })
        .getByText("up", { exact: true })
        .waitFor();
      await rows.filter({ hasText: "worker" }).getByText("up", { exact: true }).waitFor();
      expect(await rows.count()).toBe(3);
      expect(await violations(page)).toEqual([]);
      await page.goto(`${alone.url}/ui/doctor`);
      await page.getByText("Running version").waitFor();
      expect(await page.getByRole("region", { name: "Nodes" }).count()).toBe(0);
    },
  );
});
