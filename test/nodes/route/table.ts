/**
 * How each route of the document is asked for about a Task whose files another node has. The document decides what must
 * be here; what is missing, and what no longer exists, fails the test.
 */

/** What a round has: its own Tasks, Missions and webhook, all of the node that is asked first and then gone. */
export type Round = {
  directory: string;
  /** A Task that has ended. */
  done: string;
  callID: string;
  checkID: string;
  artifactID: string;
  sessionID: string;
  /** A Task that asks. */
  asking: string;
  askID: string;
  /** A Mission that rests, and one that is woken again. */
  rests: string;
  woken: string;
  webhookID: string;
  receiver: string;
};

/**
 * `query`, `body`: what is sent beside the project. `files`: while the node is away, only 503 `node_away` can be said.
 * `own`: the answer is of whoever is asked, and alike in nothing but its status.
 */
export type Asked = {
  path: (round: Round) => string;
  query?: (round: Round) => string;
  body?: (round: Round) => object;
  status: number;
  files?: true;
  own?: true;
  /** Once the Task that asks has ended, which takes its node. */
  ended?: true;
  /** The status while the node is away, if it is another one. */
  away?: number;
};

const task = (rest = ""): Pick<Asked, "path" | "status"> => ({
  path: ({ done }) => `/task/${done}${rest}`,
  status: 200,
});
const ask = (rest: string, status: number, body: Asked["body"] = () => ({})): Asked => ({
  path: ({ asking }) => `/task/${asking}${rest}`,
  body,
  status,
});
const mission = (rest = ""): Pick<Asked, "path" | "status"> => ({
  path: ({ rests }) => `/mission/${rests}${rest}`,
  status: 200,
});
const here = (path: string): Pick<Asked, "path" | "status"> => ({ path: () => path, status: 200 });
const events = () => "format=json&after=0";
const webhook = (rest = ""): Pick<Asked, "path" | "status"> => ({
  path: ({ webhookID }) => `/webhook/${webhookID}${rest}`,
  status: 200,
});

/** Why a route is not asked for here. */
type Elsewhere = string;

/** By method and path, in the order in which they are asked for: what changes something comes after what reads it. */
export const table: Record<string, Asked | Elsewhere> = {
  // Of a Task.
  "get /task/{taskID}": task(),
  "get /task/{taskID}/status": task("/status"),
  "get /task/{taskID}/board": task("/board"),
  "get /task/{taskID}/messages": task("/messages"),
  "get /task/{taskID}/events": { ...task("/events"), query: events },
  "get /task/{taskID}/diff": { ...task("/diff"), files: true },
  "get /task/{taskID}/project-archive": { ...task("/project-archive"), files: true },
  "get /task/{taskID}/preview": { ...task("/preview"), files: true },
  "get /task/{taskID}/call/{callID}/output": {
    path: ({ done, callID }) => `/task/${done}/call/${callID}/output`,
    status: 200,
  },
  "get /task/{taskID}/checks/{checkID}/log": {
    path: ({ done, checkID }) => `/task/${done}/checks/${checkID}/log`,
    status: 200,
  },
  "get /task/{taskID}/artifacts/{artifactID}": {
    path: ({ done, artifactID }) => `/task/${done}/artifacts/${artifactID}`,
    status: 200,
  },
  // Of a Mission.
  "get /mission": here("/mission"),
  "get /mission/{missionID}": mission(),
  "get /mission/{missionID}/status": mission("/status"),
  "get /mission/{missionID}/events": { ...mission("/events"), query: events },
  "get /mission/{missionID}/messages": mission("/messages"),
  "get /mission/{missionID}/project-archive": { ...mission("/project-archive"), files: true },
  // Of the project.
  "get /tasks": here("/tasks"),
  "get /missions": here("/missions"),
  "get /events": { ...here("/events"), query: events },
  "get /project": { ...here("/project"), files: true },
  "get /project/requests": { ...here("/project/requests"), files: true },
  "get /project/grants": { ...here("/project/grants"), files: true },
  "get /squads": { ...here("/squads"), files: true },
  "get /squads/recommend": { ...here("/squads/recommend"), query: () => "phase=fix&productPillar=code", files: true },
  "get /squad/{id}": { ...here("/squad/base"), files: true },
  // What changes them.
  "post /task": {
    path: () => "/task",
    body: () => ({ request: "nothing", productPillar: "code", checks: [] }),
    status: 202,
  },
  "patch /task/{taskID}": { ...task(), body: () => ({ title: "Another" }) },
  "post /task/{taskID}/preview/capture": { ...task("/preview/capture"), body: () => ({}), status: 422, files: true },
  "post /task/{taskID}/revert": { ...task("/revert"), body: () => ({ checks: [] }), status: 202, files: true },
  "post /task/{taskID}/pending/{askID}": {
    path: ({ asking, askID }) => `/task/${asking}/pending/${askID}`,
    body: () => ({ answer: "green" }),
    status: 200,
  },
  "post /task/{taskID}/session/{sessionID}/interrupt": {
    path: ({ done, sessionID }) => `/task/${done}/session/${sessionID}/interrupt`,
    body: () => ({}),
    // It is not a delegate's.
    status: 400,
  },
  "post /task/{taskID}/message": ask("/message", 202, () => ({ source: "test", text: "and more" })),
  "post /task/{taskID}/cancel": ask("/cancel", 202),
  "post /task/{taskID}/retry": { ...ask("/retry", 202), ended: true, away: 409 },
  "delete /task/{taskID}": { ...task(), status: 200 },
  "patch /mission/{missionID}/title": { ...mission("/title"), body: () => ({ title: "Another" }) },
  "patch /mission/{missionID}/archive": { ...mission("/archive"), body: () => ({ archived: true }) },
  "post /mission/{missionID}/pending/{askID}": {
    ...mission("/pending/ask_00000000000000000000000000"),
    body: () => ({ answer: "green" }),
    status: 409,
  },
  "post /mission/{missionID}/plan": {
    ...mission("/plan"),
    body: () => ({ phases: [{ id: "x", title: "X", objective: "x" }], revision: 99 }),
    // It was changed meanwhile.
    status: 409,
  },
  "post /mission/{missionID}/merge": { ...mission("/merge"), body: () => ({}), status: 409, files: true },
  "post /mission/wake": {
    path: () => "/mission/wake",
    body: ({ woken }) => ({ missionID: woken, text: "say hello again" }),
    status: 200,
  },
  "post /mission/{missionID}/abort": { path: ({ woken }) => `/mission/${woken}/abort`, body: () => ({}), status: 200 },
  "delete /mission/{missionID}": mission(),
  // Of the whole service.
  "get /projects": here("/projects"),
  "get /overview": here("/overview"),
  "get /webhooks": here("/webhooks"),
  "get /webhook/deliveries": { ...here("/webhook/deliveries"), own: true },
  "get /webhook/{webhookID}": webhook(),
  "post /webhook": { ...here("/webhook"), body: ({ receiver }) => ({ url: receiver }) },
  "patch /webhook/{webhookID}": { ...webhook(), body: () => ({ description: "Another" }) },
  "post /webhook/{webhookID}/test": { ...webhook("/test"), body: () => ({}) },
  "post /webhook/{webhookID}/secret": { ...webhook("/secret"), body: () => ({}), own: true },
  "post /webhook/secret": { ...here("/webhook/secret"), body: () => ({}) },
  "post /webhook/redeliver": {
    ...here("/webhook/redeliver"),
    body: () => ({ since: "2026-01-01T00:00:00.000Z" }),
  },
  "post /webhook/delivery/{deliveryID}/redeliver": {
    path: () => "/webhook/delivery/msg_00000000000000000000000000/redeliver",
    body: () => ({}),
    status: 404,
  },
  "delete /webhook/{webhookID}": webhook(),
  // Of whoever is asked.
  "get /health": { ...here("/health"), own: true },
  "get /nodes": { ...here("/nodes"), own: true },
  "get /models": here("/models"),
  "get /metrics": { ...here("/metrics"), own: true },
  "get /openapi.json": { ...here("/openapi.json"), own: true },
  "get /doc": here("/doc"),
  "post /blobs/move": here("/blobs/move"),
  "post /node/{name}/drain": "asked of every node in test/nodes/drain.test.ts",
  "post /model/test": "a call to a provider, of no Task",
  "post /model/key": "a setting of the node that is asked, of no Task",
  "post /squad/validate": "a package that is sent along, or of the node that is asked",
  "post /squad/install": "a package of the node that is asked",
  "delete /squad/{id}": "a package of the node that is asked",
};
