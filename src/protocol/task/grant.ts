import { z } from "zod";

/** What a project requests with a file of its own, and whether the operator has granted it. */

export const projectGrant = z
  .object({
    file: z.enum([".mcp.json", ".sortie/environment.jsonc", ".devcontainer/devcontainer.json"]),
    digest: z.string().describe("SHA-256 of the file as it is now; a grant is for exactly these bytes"),
    state: z
      .enum(["granted", "requested", "unusable", "overridden"])
      .describe(
        "requested: not granted. unusable: nothing in it can be granted. overridden: the operator's configuration has an environment for this project, and the file is ignored",
      ),
    requests: z.array(z.string()).describe("What it requests, one sentence each; secrets by name"),
    problems: z.array(z.string()).describe("What cannot be used, and why"),
  })
  .meta({ id: "ProjectGrant" });

export type ProjectGrant = z.infer<typeof projectGrant>;
