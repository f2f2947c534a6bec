import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { EventData } from "../../protocol/event/event.ts";

/** Words for what a command changed in files that can make Git run programs. */

type Files = EventData["git.tampered"]["files"];

export const tamperedText = (files: Files): string =>
  files
    .map(({ path, change, restored, kept }) => {
      const now = restored ? "restored" : "not restored";
      return `${path} (${change}; ${now}${kept === null ? "" : `, the changed version is in ${kept}`})`;
    })
    .join("; ");

export const gitTampered = (files: Files): TurnFailure => ({
  code: "git_tampered",
  message:
    "While a command of this Task ran, something changed that can make Git run programs or push elsewhere: " +
    `${tamperedText(files)}. Nothing landed.`,
  retryable: false,
  remedy: files.every(({ restored }) => restored)
    ? "Read the changed version. If the change is yours, make it again; then send a message to continue."
    : "Look at these files before you run git in this project; then send a message to continue.",
});
