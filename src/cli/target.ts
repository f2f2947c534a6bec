import type { Target } from "./connection.ts";

/**
 * Splits a URL into the address and the credentials that it may contain; the credentials are used, and never printed.
 */
export const targetAt = (
  given: string,
  { username, password }: Pick<Target, "username" | "password">,
): Pick<Target, "url" | "username" | "password"> => {
  const url = URL.parse(given);
  if (url === null || (url.username === "" && url.password === "")) return { url: given, username, password };
  const own = {
    username: url.username === "" ? username : decodeURIComponent(url.username),
    password: url.password === "" ? password : decodeURIComponent(url.password),
  };
  url.username = "";
  url.password = "";
  return { url: given.endsWith("/") ? url.href : url.href.replace(/\/$/, ""), ...own };
};
