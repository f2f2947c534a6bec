import type { IncomingMessage } from "node:http";
import { ServiceError } from "../../error.ts";

/**
 * Decides who may give the service a secret: callers who authenticated with the password or, when no password is set,
 * the service's own page in a browser on the same machine. Refuses other pages, requests through a proxy, and host
 * names that merely resolve to this machine.
 */

const localHost = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i;
const loopback = /^(?:127\.\d+\.\d+\.\d+|::1|::ffff:127\.\d+\.\d+\.\d+)$/;
const forwarded = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

export const refuseSecretFromOthers = ({ headers, socket }: IncomingMessage, password: boolean): void => {
  if (password) return;
  const { host = "", origin, "sec-fetch-site": site } = headers;
  const here = loopback.test(socket.remoteAddress ?? "") && localHost.test(host);
  const own =
    origin?.toLowerCase() === `http://${host.toLowerCase()}` && (site === undefined || site === "same-origin");
  if (here && own && !forwarded.some((name) => headers[name] !== undefined)) return;
  throw new ServiceError(
    "key_not_allowed",
    "Expected a request from the service's own page on its own machine, got one from elsewhere. To set keys from elsewhere, set SERVICE_SERVER_PASSWORD.",
  );
};
