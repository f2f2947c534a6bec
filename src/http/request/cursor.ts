import { ServiceError } from "../../error.ts";
import { type IDKind, isID } from "../../id.ts";
import { quote } from "../../protocol/issue.ts";

/** The cursor of a list's next page: the time and the id of the last element of the page before. */

const kinds = { taskID: "task", sessionID: "ses" } as const satisfies Record<string, IDKind>;

/** undefined: the list's first page. Throws `invalid_cursor`. */
export const cursorOf = <N extends keyof typeof kinds>(
  name: N,
  updated: string | undefined,
  id: string | undefined,
): ({ updated: number } & Record<N, string>) | undefined => {
  const field = `cursor${name.charAt(0).toUpperCase()}${name.slice(1)}`;
  if (updated === undefined && id === undefined) return undefined;
  if (updated === undefined || id === undefined)
    throw new ServiceError(
      "invalid_cursor",
      `Expected cursorUpdated and ${field} together, got only ${updated === undefined ? field : "cursorUpdated"}.`,
    );
  if (!/^\d{1,15}$/.test(updated) || !isID(kinds[name], id))
    throw new ServiceError(
      "invalid_cursor",
      `Expected updated and ${name} of the last element of a page, got ${quote(updated)} and ${quote(id)}.`,
    );
  return { updated: Number(updated), [name]: id } as { updated: number } & Record<N, string>;
};
