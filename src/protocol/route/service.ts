import { z } from "zod";
import { eventPage, streamFrame } from "../event/frame.ts";
import { emptyBody, time } from "../field.ts";
import { overview } from "../overview.ts";
import { eventQuery, json, type Route, unchanged } from "./route.ts";
import * as service from "../service.ts";

/** Routes about the service itself, and the event stream of all Tasks and Missions. */
export const serviceRoutes = {
  "event.stream": {
    method: "GET",
    path: "/events",
    summary: "The events of all Tasks and Missions, of one directory if given",
    directory: "filter",
    query: eventQuery,
    answers: [
      { status: 200, description: "Frames", type: "text/event-stream", schema: streamFrame },
      json(eventPage, "With format=json"),
    ],
  },
  "service.overview": {
    method: "GET",
    path: "/overview",
    summary:
      "How many Tasks need you, are running, are waiting and have failed, per project and in total, and the open asks",
    directory: "filter",
    query: z.object({ since: time.optional().describe("Count failures since this time; default: 24 hours ago") }),
    answers: [json(overview, "The overview, with an ETag"), unchanged],
  },
  "service.health": {
    method: "GET",
    path: "/health",
    summary: "Whether the service works, and with what",
    directory: "accepted",
    answers: [json(service.health, "Health")],
  },
  "service.nodes": {
    method: "GET",
    path: "/nodes",
    summary: "The services that share the database, seen within the last day",
    directory: "accepted",
    answers: [json(service.nodes, "Nodes, by name")],
  },
  "service.drainNode": {
    method: "POST",
    path: "/node/{name}/drain",
    summary: "Drain a node: it starts nothing new, and its runs finish their current steps",
    directory: "accepted",
    params: z.object({ name: z.string() }),
    body: emptyBody,
    bodyOptional: true,
    refuses: ["node_not_found"],
    answers: [json(service.node, "The node", 202)],
  },
  "service.moveBlobs": {
    method: "POST",
    path: "/blobs/move",
    summary: "Move the blobs of the data folder into the database, or say how far the move is",
    directory: "accepted",
    body: emptyBody,
    bodyOptional: true,
    answers: [json(service.blobMove, "The move")],
  },
  "service.models": {
    method: "GET",
    path: "/models",
    summary: "The model in use and why, and the providers with the source of their keys",
    directory: "accepted",
    answers: [json(service.models, "Models")],
  },
  "service.testModel": {
    method: "POST",
    path: "/model/test",
    summary: "Make one real call to a model and report the result",
    directory: "accepted",
    body: service.modelTest,
    bodyOptional: true,
    refuses: ["model_not_configured", "model_not_found"],
    answers: [json(service.modelTrial, "The result, even if the call failed")],
  },
  "service.setKey": {
    method: "POST",
    path: "/model/key",
    summary: "Set a provider's key, which is saved in config.jsonc and used immediately",
    directory: "accepted",
    body: service.modelKey,
    refuses: ["key_not_allowed", "provider_not_fixed", "config_not_writable"],
    answers: [json(service.modelKeySet, "Set; never the key")],
  },
  "service.metrics": {
    method: "GET",
    path: "/metrics",
    summary: "Prometheus metrics",
    directory: "accepted",
    answers: [{ status: 200, description: "Text exposition format", type: "text/plain" }],
  },
  "service.openapi": {
    method: "GET",
    path: "/openapi.json",
    summary: "This interface as OpenAPI 3.1",
    directory: "accepted",
    answers: [json(z.object({ openapi: z.string() }), "The document, with an ETag"), unchanged],
  },
  "service.doc": {
    method: "GET",
    path: "/doc",
    summary: "The reference page",
    directory: "accepted",
    answers: [{ status: 200, description: "The page", type: "text/html" }],
  },
} as const satisfies Record<string, Route>;
