import { z } from "zod";
import { parseJsonc } from "../../json.ts";
import { shellQuote } from "../../shell-quote.ts";
import { type EnvironmentSettings, environmentSettings, isOwnVariable } from "../../protocol/task/environment.ts";

/**
 * Reads a project's devcontainer.json as a request for an environment: its image, its post-create command as the setup,
 * its variables. Properties that would give commands another system, other rights or other files than that are refused
 * by name; properties for editors and people are ignored.
 */

const single = z.union([z.string().min(1), z.array(z.string()).min(1)]);
const variables = z.record(z.string(), z.string().nullable());

const understood = z.object({
  image: z.string(),
  postCreateCommand: z.union([single, z.record(z.string(), single)]).optional(),
  containerEnv: variables.optional(),
  remoteEnv: variables.optional(),
});

/**
 * Properties that cannot be ignored: without them, commands would find something else than the project expects, or they
 * ask for something that the service would have to grant.
 */
const refused =
  "build dockerFile dockerComposeFile features initializeCommand onCreateCommand updateContentCommand runArgs mounts privileged capAdd securityOpt secrets hostRequirements".split(
    " ",
  );

/** Quoted for the shell, if necessary. */
const word = (text: string): string => (/^[\w@%+:,./-]{1,200}$/.test(text) ? text : shellQuote(text));

const lineOf = (command: z.infer<typeof single>): string =>
  typeof command === "string" ? command : command.map(word).join(" ");

export const readDevcontainer = (text: string): EnvironmentSettings | { problem: string } => {
  const { value, problem } = parseJsonc(text);
  if (problem !== undefined) return { problem: `it is no JSON: ${problem}` };
  if (typeof value !== "object" || value === null) return { problem: "it is no object" };
  const beyond = refused.filter((name) => Object.hasOwn(value, name));
  if (beyond.length > 0)
    return { problem: `${beyond.join(", ")}: not supported; image, postCreateCommand, containerEnv and remoteEnv are` };
  const read = understood.safeParse(value);
  if (!read.success) {
    const [issue] = read.error.issues;
    return { problem: `${issue?.path.join(".") || "the file"}: ${issue?.message}` };
  }
  const { image, postCreateCommand: after, containerEnv = {}, remoteEnv = {} } = read.data;
  const setup =
    after === undefined
      ? undefined
      : typeof after === "string" || Array.isArray(after)
        ? lineOf(after)
        : Object.values(after)
            .map((command) => `( ${lineOf(command)} )`)
            .join(" && ");
  const all = Object.entries({ ...containerEnv, ...remoteEnv });
  // `${localEnv:HOME}` and the like refer to the machine that an editor runs on.
  const open = [["image", image], ["postCreateCommand", setup ?? ""], ...all].find(([, text]) =>
    /\$\{(?:localEnv|containerEnv|localWorkspaceFolder|containerWorkspaceFolder|devcontainerId)/.test(text ?? ""),
  );
  if (open !== undefined) return { problem: `${open[0]}: \${…} of an editor is not supported` };
  const own = all.find(([name]) => isOwnVariable(name));
  if (own !== undefined) return { problem: `${own[0]}: commands get that variable from the service` };
  const settings = environmentSettings.safeParse({
    image,
    ...(setup === undefined ? {} : { setup }),
    variables: Object.fromEntries(all.filter(([, text]) => text !== null)),
  });
  if (settings.success) return settings.data;
  const [issue] = settings.error.issues;
  return { problem: `${issue?.path.join(".")}: ${issue?.message}` };
};
