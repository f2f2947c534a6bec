import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { EventData } from "../../protocol/event/event.ts";

/** Words for what a command changed in the files that git takes orders from. */

type Files = EventData["git.tampered"]["files"];

export const tamperedText = (files: Files): string =>
  files
    .map(({ path, change, restored, kept }) => {
      const now = restored ? "put back as it was" : "left as it was found";
      return `${path} (${change}; ${now}${kept === null ? "" : `, what was found is in ${kept}`})`;
    })
    .join("; ");

export const gitTampered = (files: Files): TurnFailure => ({
  code: "git_tampered",
  message:
    "While a command of this Task ran, something changed by which Git runs programs, or sends elsewhere what is pushed: " +
    `${tamperedText(files)}. Nothing landed.`,
  retryable: false,
  remedy: files.every(({ restored }) => restored)
    ? "Read what was found. If the change is yours, make it again; then send a message to continue."
    : "Look at these files before you run git in this project; then send a message to continue.",
});
