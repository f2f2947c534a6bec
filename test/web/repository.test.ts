import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { browserHere } from "../harness/browser.ts";
import { addForge } from "../harness/double/forge/double.ts";
import { canServe, type GitHost, startGitHost, token } from "../harness/double/git-host.ts";
import { git, makeProject } from "../harness/project.ts";
import type { TestService } from "../harness/service.ts";
import { violations } from "./browser.ts";
import { inBrowser, onStage } from "./stage.ts";

/** A repository by address, on the page: given, worked on, found again. */

const able = browserHere !== undefined && canServe;
let host: GitHost;
let service: TestService;
let page: Page;
let complaints: string[] = [];
const root = onStage({
  name: "repository",
  able,
  config: async (root) => {
    host = await startGitHost(root);
    addForge(host, "gitea");
    const own = `http://127.0.0.1:${host.port}`;
    const credentials = [
      { match: `${own}/acme/*`, token: "env:HOST_TOKEN", forge: "gitea" },
      { match: `${own}/*`, token: "env:HOST_TOKEN" },
    ];
    return { repositories: { allow: [`${own}/*`], credentials } };
  },
  env: { HOST_TOKEN: token },
  ready: (stage) => void ({ service, page, complaints } = stage),
  end: () => host?.[Symbol.asyncDispose](),
});

inBrowser(
  "a repository by address",
  () => {
    test("a Task from its address: the branch that was pushed, the record, the list, the sidebar", async () => {
      host.make("app", { "a.txt": "one\n" });
      const url = host.url("app");
      await page.goto(service.url);
      await page.getByLabel("repository URL").fill(`${url}#main`);
      await page.getByLabel("repository URL").press("Enter");
      await page.getByLabel("What should be done").fill('replace "one" with "two" in a.txt');
      await page.getByRole("button", { name: "Start Task" }).click();
      await page.waitForURL(/\/ui\/task\/task_/);
      const result = page.getByRole("region", { name: "Result" });
      const taskID = /task_\w+/.exec(page.url())?.[0] ?? "";
      await result.getByRole("heading", { name: new RegExp(`^Pushed \\w+ to sortie/${taskID}$`) }).waitFor();
      expect(host.git("app", "show", `sortie/${taskID}:a.txt`)).toBe("two");
      await result.getByText(`git fetch ${url} sortie/${taskID}`).waitFor();
      await page.getByRole("region", { name: "The Task" }).getByText(`127.0.0.1:${host.port}/app.git, main`).waitFor();
      expect(await violations(page)).toEqual([]);

      await page.getByRole("navigation", { name: "Projects" }).getByRole("link", { name: "app", exact: true }).click();
      await page
        .getByRole("link", { name: /Completed.*main/ })
        .first()
        .waitFor();
      expect(new URL(page.url()).searchParams.get("project")).toBe(url);
      expect(await page.title()).toBe("app · Sortie");
      // It is among the projects to choose from by its address, not by where the service keeps it.
      const known = page.getByRole("form", { name: "New Task" }).getByLabel("Known projects").locator("option");
      const offered = await known.evaluateAll((options) => options.map((option) => option.getAttribute("value")));
      expect(offered).toContain(url);
      expect(offered.filter((each) => each?.includes("/repositories/"))).toEqual([]);
      expect(await violations(page)).toEqual([]);
      expect(complaints).toEqual([]);
    }, 60_000);

    test("a result that is a pull request leads to it", async () => {
      host.make("acme/shop", { "a.txt": "one\n" });
      const repository = { url: host.url("acme/shop") };
      const client = createServiceClient({ baseUrl: service.url });
      const request = 'replace "one" with "two" in a.txt';
      const { data } = await client.task.create({ body: { request, productPillar: "code", repository } });
      const taskID = data?.taskID ?? "";
      await client.task.wait({ path: { taskID } });
      await page.goto(`${service.url}/ui/task/${taskID}`);
      const link = page.getByRole("region", { name: "Result" }).getByRole("link", { name: "Pull request #1 open" });
      expect(await link.getAttribute("href")).toBe(`http://127.0.0.1:${host.port}/acme/shop/pulls/1`);
      expect(await violations(page)).toEqual([]);
    }, 60_000);

    test("a clone of one may have a pull request, too; a folder without a remote is not offered one", async () => {
      host.make("acme/tool", { "a.txt": "one\n" });
      const clone = join(root, "tool");
      git(root, "clone", "-q", join(root, "host/acme/tool.git"), clone);
      git(clone, "remote", "set-url", "origin", host.url("acme/tool"));
      const form = page.getByRole("form", { name: "New Task" });
      const offered = async (directory: string) => {
        await page.goto(service.url);
        await form.getByLabel("Project directory").fill(directory);
        await form.getByLabel("Project directory").press("Enter");
        await form.getByLabel("What decides").getByText("one commit on the branch").waitFor();
        const options = form.getByRole("button", { name: "Options" });
        if ((await options.getAttribute("aria-expanded")) !== "true") await options.click();
        await form.getByLabel("Result").waitFor();
        return form.getByLabel("Result").locator("option").allTextContents();
      };
      const plain = ["Default", "One commit on the branch", "On its own branch"];
      expect(await offered(makeProject(join(root, "alone"), { "a.txt": "one\n" }))).toEqual(plain);
      expect(await offered(clone)).toEqual([...plain, "A pull request"]);
      await form.getByLabel("Result").selectOption("A pull request");
      await form.getByLabel("What decides").getByText("a pull request").waitFor();
      await form.getByLabel("What should be done").fill('replace "one" with "two" in a.txt');
      await form.getByRole("button", { name: "Start Task" }).click();
      await page.waitForURL(/\/ui\/task\/task_/);
      const link = page.getByRole("region", { name: "Result" }).getByRole("link", { name: /^Pull request #\d+ open$/ });
      expect(await link.getAttribute("href")).toMatch(`http://127.0.0.1:${host.port}/acme/tool/pulls/`);
      expect(complaints).toEqual([]);
    }, 60_000);

    test("an address that the operator did not allow is refused where it was given", async () => {
      await page.goto(service.url);
      await page.getByLabel("repository URL").fill("https://example.com/other.git");
      await page.getByLabel("repository URL").press("Enter");
      await page.getByRole("alert").getByText("example.com").waitFor();
    });
  },
  able,
);
