import { hash, timingSafeEqual } from "node:crypto";
import { ServiceError } from "../../error.ts";

/**
 * HTTP Basic authentication: hashes `user:password` of both sides with SHA-256 and compares them once in constant time,
 * with the same work whatever is wrong. The header never reaches a log.
 */

export type Auth = { username: string; password: string | undefined };

/** undefined: no password is set, so every caller is accepted. */
export const createAuth = ({ username, password }: Auth): ((header: string | undefined) => boolean) | undefined => {
  if (password === undefined) return undefined;
  const expected = Buffer.from(hash("sha256", Buffer.from(`${username}:${password}`), "hex"));
  const got = Buffer.alloc(expected.length);
  return (header) => {
    const encoded = form.exec(header ?? "")?.[1];
    const bytes = Buffer.from(encoded ?? "", "base64");
    const canonical = encoded !== undefined && bytes.toString("base64") === encoded;
    got.write(hash("sha256", bytes, "hex"));
    const equal = timingSafeEqual(got, expected);
    return canonical && equal;
  };
};

/** Whether a header has the form of Basic credentials; only such a header counts as an attempt at the password. */
export const isGuess = (header: string | undefined): header is string => form.test(header ?? "");

const form = /^basic ([A-Za-z0-9+/]+={0,2})$/i;

export const unauthorized = (header: string | undefined): ServiceError =>
  new ServiceError(
    "unauthorized",
    header === undefined
      ? "Expected HTTP Basic credentials, got none."
      : "Expected the service's user name and password as HTTP Basic credentials, got others.",
    { headers: { "www-authenticate": 'Basic realm="service"' } },
  );
