import { z } from "zod";

/** Requests that a project keeps as files. */

export const savedRequest = z
  .object({
    name: z.string().describe("As it is called: the file's name, with its folder before a colon"),
    description: z.string().describe("Of its front matter, else its first line"),
    arguments: z.string().nullable().describe("What to give with it, in words"),
    text: z.string(),
  })
  .meta({ id: "SavedRequest" });

export type SavedRequest = z.infer<typeof savedRequest>;
