import { expect, test } from "vitest";
import { createRouter } from "../../src/http/router.ts";

/** Which row of the table a request is for. */

const find = createRouter(
  [
    ["GET", "/"],
    ["GET", "/ui"],
    ["GET", "/ui/*"],
    ["POST", "/squad/install"],
    ["GET", "/squad/{id}"],
    ["DELETE", "/squad/{id}"],
    ["GET", "/task/{taskID}/checks/{checkID}/log"],
  ].map(([method = "", path = ""]) => ({ method, path, value: `${method} ${path}` })),
);

const route = (value: string, params: Record<string, string> = {}) => ({ kind: "route", value, params });
const none = { kind: "none" };

test.each([
  ["GET", "/", route("GET /")],
  ["HEAD", "/", route("GET /")],
  ["GET", "/ui", route("GET /ui")],
  ["GET", "/ui/tasks/1", route("GET /ui/*")],
  ["GET", "/uii", none],
  ["GET", "/squad/install", route("GET /squad/{id}", { id: "install" })],
  ["POST", "/squad/install", route("POST /squad/install")],
  ["DELETE", "/squad/a%20b", route("DELETE /squad/{id}", { id: "a b" })],
  ["GET", "/sq%75ad/x", route("GET /squad/{id}", { id: "x" })],
  ["GET", "/squad/", none],
  ["GET", "/squad", none],
  ["GET", "/squad/x/", none],
  ["PATCH", "/squad/x", { kind: "method", allow: "GET, HEAD, DELETE" }],
  ["PATCH", "/squad/install", { kind: "method", allow: "POST, GET, HEAD, DELETE" }],
  ["GET", "/task/t/checks/c/log", route("GET /task/{taskID}/checks/{checkID}/log", { taskID: "t", checkID: "c" })],
  ["GET", "/task/t/checks/c", none],
])("%s %s", (method, path, found) => {
  expect(find(method, path)).toEqual(found);
});
