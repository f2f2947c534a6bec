import { defaultLimits, type Limits } from "../limit.ts";
import { createMissionRequests } from "../mission/request.ts";
import type { Route } from "./route.ts";
import { missionRoutes } from "./mission.ts";
import { serviceRoutes } from "./service.ts";
import { squadRoutes } from "./squad.ts";
import { taskRoutes } from "./task.ts";
import { webhookRoutes } from "./webhook.ts";
import { createRequests } from "../task/request.ts";

/**
 * The table of all routes. `http` serves exactly these and parses with these schemas; the OpenAPI document and the
 * typed client are generated from it. Source: shared/spec/interface.md 4 and completion.md.
 */
export const createRoutes = (limits: Limits = defaultLimits) => {
  const tasks = createRequests(limits);
  return {
    ...taskRoutes(tasks),
    ...missionRoutes(createMissionRequests(limits), tasks),
    ...squadRoutes,
    ...webhookRoutes,
    ...serviceRoutes,
  } as const satisfies Record<string, Route>;
};

export type Routes = ReturnType<typeof createRoutes>;
export type OperationID = keyof Routes;
