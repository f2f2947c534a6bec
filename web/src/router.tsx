import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  retainSearchParams,
} from "@tanstack/react-router";
import type { TaskSummary } from "../../src/protocol/task/status.ts";
import { Missing } from "./component/layout/empty.tsx";
import { Home } from "./home/home.tsx";
import { type HomeSearch, type TaskSearch, tabs } from "./search.ts";
import { Shell } from "./shell/shell.tsx";

/** The screens. Their paths begin with /ui, so that none collides with a route of the API. */

const text = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : typeof value === "number" ? String(value) : undefined;

const oneOf =
  <const T extends string>(...words: readonly T[]) =>
  (value: unknown): T | undefined =>
    words.find((word) => word === value);

const lifecycle = oneOf<TaskSummary["lifecycleStatus"]>("active", "completed", "failed", "cancelled");

const priority = oneOf<TaskSummary["priority"]>("critical", "high", "normal", "low");

const pillar = oneOf<TaskSummary["productPillar"]>("code", "work");

const tab = oneOf(...tabs);

/** Leaves out undefined values, so that they do not appear in the address. */
const given = <T extends object>(values: T): Partial<T> =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<T>;

const rootRoute = createRootRoute({
  component: Shell,
  notFoundComponent: Missing,
  validateSearch: ({ project }: Record<string, unknown>): { project?: string } =>
    given({ project: text(project) }) as { project?: string },
  search: { middlewares: [retainSearchParams(["project"])] },
});

const homeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  component: Home,
  validateSearch: (search: Record<string, unknown>): HomeSearch =>
    given({
      view: oneOf("board")(search["view"]),
      q: text(search["q"]),
      state: lifecycle(search["state"]),
      pillar: pillar(search["pillar"]),
      priority: priority(search["priority"]),
      squad: text(search["squad"]),
      archived: search["archived"] === true ? true : undefined,
    }) as HomeSearch,
});

const taskRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/ui/task/$taskID",
  validateSearch: (search: Record<string, unknown>): TaskSearch =>
    given({ tab: tab(search["tab"]), session: text(search["session"]) }) as TaskSearch,
  component: lazyRouteComponent(() => import("./task/page.tsx"), "TaskPage"),
});

const missionsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/ui/missions",
  component: lazyRouteComponent(() => import("./mission/missions.tsx"), "Missions"),
});

const missionRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/ui/mission/$missionID",
  component: lazyRouteComponent(() => import("./mission/page.tsx"), "MissionPage"),
});

const squadsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/ui/squads",
  component: lazyRouteComponent(() => import("./squad/squads.tsx"), "Squads"),
});

const squadRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/ui/squad/$id",
  component: lazyRouteComponent(() => import("./squad/squad.tsx"), "SquadPage"),
});

const modelsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/ui/models",
  component: lazyRouteComponent(() => import("./service/models.tsx"), "Models"),
});

const usageRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/ui/usage",
  component: lazyRouteComponent(() => import("./service/usage.tsx"), "Usage"),
});

const webhooksRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/ui/webhooks",
  component: lazyRouteComponent(() => import("./webhook/webhooks.tsx"), "Webhooks"),
});

const doctorRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/ui/doctor",
  component: lazyRouteComponent(() => import("./service/doctor.tsx"), "Doctor"),
});

const environmentRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/ui/environment",
  component: lazyRouteComponent(() => import("./service/environment.tsx"), "Environment"),
});

const manualRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/ui/manual/$name",
  component: lazyRouteComponent(() => import("./service/manual.tsx"), "Manual"),
});

export const router = createRouter({
  routeTree: rootRoute.addChildren([
    homeRoute,
    taskRoute,
    missionsRoute,
    missionRoute,
    squadsRoute,
    squadRoute,
    modelsRoute,
    usageRoute,
    webhooksRoute,
    doctorRoute,
    environmentRoute,
    manualRoute,
  ]),
  defaultPreload: "intent",
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
