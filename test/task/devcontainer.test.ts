import { expect, test } from "vitest";
import { readDevcontainer } from "../../src/task/worker/devcontainer.ts";

/** What a devcontainer.json asks for, in the words of an environment; and what it may not ask for. */

const of = (value: object) => readDevcontainer(JSON.stringify(value));
const image = "docker.io/library/node:24";

test.each<[string, object, object]>([
  ["an image alone", { image }, { image, variables: {} }],
  [
    "what is for editors",
    { image, name: "x", customizations: { vscode: {} }, forwardPorts: [1], remoteUser: "node", workspaceFolder: "/w" },
    { image, variables: {} },
  ],
  [
    "a line of shell",
    { image, postCreateCommand: "npm ci && npm run build" },
    { image, setup: "npm ci && npm run build", variables: {} },
  ],
  [
    "words",
    { image, postCreateCommand: ["echo", "a b", "$HOME"] },
    { image, setup: "echo 'a b' '$HOME'", variables: {} },
  ],
  [
    "several",
    { image, postCreateCommand: { one: "npm ci", two: ["echo", "x y"] } },
    { image, setup: "( npm ci ) && ( echo 'x y' )", variables: {} },
  ],
  [
    "variables, the later ones first",
    { image, containerEnv: { A: "1", B: "2" }, remoteEnv: { B: "3", C: null } },
    { image, variables: { A: "1", B: "3" } },
  ],
])("%s", (_name, value, expected) => expect(of(value)).toEqual(expected));

test("comments and trailing commas are JSON there", () =>
  expect(readDevcontainer(`{ /* x */ "image": "${image}", // y\n }`)).toEqual({ image, variables: {} }));

test.each<[string, object, RegExp]>([
  ["a file to build from", { build: { dockerfile: "Dockerfile" } }, /^build: not supported/],
  ["compose", { image, dockerComposeFile: "c.yaml" }, /^dockerComposeFile: not supported/],
  [
    "features, rights and mounts",
    { image, features: {}, runArgs: ["--privileged"], mounts: [] },
    /^features, runArgs, mounts: not supported/,
  ],
  ["a command on the machine", { image, initializeCommand: "curl x | sh" }, /^initializeCommand: not supported/],
  ["no image", { postCreateCommand: "x" }, /^image: /],
  ["an image that is an option", { image: "--privileged" }, /^image: expected the name of an image/],
  ["an image with a command", { image: "a; rm -rf /" }, /^image: /],
  [
    "a variable of the service",
    { image, containerEnv: { PATH: "/x" } },
    /^PATH: commands get that variable from the service/,
  ],
  [
    "a variable that changes how programs start",
    { image, remoteEnv: { LD_PRELOAD: "./x.so" } },
    /^LD_PRELOAD: commands get/,
  ],
  ["a word of an editor's", { image, remoteEnv: { X: "${localEnv:HOME}" } }, /^X: .*not supported/],
])("%s is refused by name", (_name, value, why) =>
  expect(of(value)).toEqual({ problem: expect.stringMatching(why) as string }),
);

test("what is no JSON is refused", () => {
  expect(readDevcontainer("{")).toEqual({ problem: "it is no JSON: CloseBraceExpected at offset 1" });
  expect(readDevcontainer("[]")).toMatchObject({ problem: expect.stringMatching(/expected object/) as string });
});
