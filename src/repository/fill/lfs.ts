import { createHash, randomUUID } from "node:crypto";
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { messageOf } from "../../error.ts";
import { isPublic, OutboundRefused } from "../../outbound/address.ts";
import { streamOutbound } from "../../outbound/request.ts";
import type { Git } from "../../workspace/git/git.ts";
import { urlOf } from "../address.ts";
import { usesToken, type Remote } from "../credential.ts";
import { createCall, jsonOf } from "../forge/call.ts";
import { ForgeRefused, RepositoryAway } from "../repository.ts";
import type { Tokens } from "../token.ts";
import type { Pointer } from "./pointer.ts";

/**
 * Fetches files from large file storage, by the batch interface of Git LFS. Asks the remote itself, whatever the
 * repository's settings say, and stores a file as a Git object once its hash and length match the pointer.
 */

export type LfsOptions = {
  tokens: Tokens;
  resolve: ((host: string) => Promise<readonly string[]>) | undefined;
  /** The folder for temporary files. */
  folder: string;
  /** Whether the content itself must be on the remote's host, too. */
  sameHost: boolean;
};

const objectsAtOnce = 100;
const type = "application/vnd.git-lfs+json";

const answerSchema = z.object({
  objects: z.array(
    z.object({
      oid: z.string(),
      actions: z
        .object({
          download: z.object({ href: z.string(), header: z.record(z.string(), z.string()).nullish() }).optional(),
        })
        .nullish(),
      error: z.object({ code: z.number(), message: z.string() }).nullish(),
    }),
  ),
});

type Offer = z.infer<typeof answerSchema>["objects"][number];

const lasting = (message: string) => new RepositoryAway(message, { lasting: true });

/** Resolves to the id of the Git object of each file, by the pointer's hash. Rejects with `RepositoryAway`. */
export const fetchLarge = async (
  git: Git,
  remote: Remote,
  pointers: readonly Pointer[],
  options: LfsOptions,
  signal: AbortSignal,
): Promise<Map<string, string>> => {
  const { address } = remote;
  if (address.scheme !== "https" && address.scheme !== "http")
    throw lasting(`Git LFS requires https, got ${address.scheme}`);
  const authorization = await authorizationOf(remote, options.tokens, signal);
  const found = new Map<string, string>();
  for (let at = 0; at < pointers.length; at += objectsAtOnce) {
    const asked = pointers.slice(at, at + objectsAtOnce);
    const offers = await offersOf(remote, asked, authorization, options, signal);
    for (const pointer of asked)
      found.set(
        pointer.oid,
        await download(git, remote, pointer, offers.get(pointer.oid), { ...options, authorization }, signal),
      );
  }
  return found;
};

const authorizationOf = async (
  remote: Remote,
  tokens: Tokens,
  signal: AbortSignal,
): Promise<Record<string, string>> => {
  if (!usesToken(remote)) return {};
  const { credential } = remote;
  const username = credential.kind === "token" ? credential.username : "x-access-token";
  const token = await tokens.of(remote, signal).catch(refusedForGood);
  return { authorization: `Basic ${Buffer.from(`${username}:${token}`).toString("base64")}` };
};

/** A server that refuses counts as a remote that refuses. */
const refusedForGood = (error: unknown): never => {
  throw error instanceof ForgeRefused ? new RepositoryAway(error.message, { cause: error, lasting: true }) : error;
};

const offersOf = async (
  { address, vouched }: Remote,
  pointers: readonly Pointer[],
  authorization: Record<string, string>,
  { resolve }: LfsOptions,
  signal: AbortSignal,
): Promise<Map<string, Offer>> => {
  const api = `${urlOf(address).replace(/\.git$/, "")}.git/info/lfs`;
  const body = JSON.stringify({ operation: "download", transfers: ["basic"], hash_algo: "sha256", objects: pointers });
  const headers = { accept: type, "content-type": type, ...authorization };
  const call = createCall(api, { vouched, resolve });
  const said = await call({ method: "POST", url: `${api}/objects/batch`, headers, body }, signal)
    .then((answer) => jsonOf(answer, address.host))
    .catch(refusedForGood);
  const { data } = answerSchema.safeParse(said);
  if (data === undefined) throw lasting(`its Git LFS server sent an invalid answer`);
  return new Map(data.objects.map((offer) => [offer.oid, offer]));
};

const download = async (
  git: Git,
  { address, vouched }: Remote,
  { oid, size }: Pointer,
  offer: Offer | undefined,
  { folder, resolve, sameHost, authorization }: LfsOptions & { authorization: Record<string, string> },
  signal: AbortSignal,
): Promise<string> => {
  const named = `the file ${oid.slice(0, 12)} of Git LFS`;
  const offered = offer?.actions?.download;
  if (offered === undefined)
    throw lasting(`${named} is not there (${(offer?.error?.message ?? "no words").slice(0, 200)})`);
  const own = new URL(urlOf(address)).origin === URL.parse(offered.href)?.origin;
  if (!own && sameHost) throw lasting(`${named} is on another host, which repositories.lfs "same-host" does not allow`);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, randomUUID());
  const output = openSync(path, "wx", 0o600);
  const hash = createHash("sha256");
  let bytes = 0;
  try {
    const open = own && vouched;
    // The remote's own credentials go to its own host only; another host gets those in the offer.
    const headers = { ...(own ? authorization : {}), ...headersIn(offered.header ?? {}) };
    const to = {
      vouched: () => open,
      allowed: (address: string) => open || isPublic(address),
      ...(resolve === undefined ? {} : { resolve }),
    };
    const status = await streamOutbound(offered.href, headers, to, signal, (part) => {
      bytes += part.length;
      if (bytes > size) throw new OutboundRefused(`Expected ${size} bytes, got more`);
      hash.update(part);
      writeSync(output, part);
    }).catch((error: unknown) => {
      signal.throwIfAborted();
      throw new RepositoryAway(`${named} could not be fetched (${messageOf(error)})`, {
        cause: error,
        lasting: error instanceof OutboundRefused,
      });
    });
    if (status !== 200)
      throw new RepositoryAway(`${named} could not be downloaded: status ${status}`, {
        lasting: status < 500 && status !== 429,
      });
    if (bytes !== size || hash.digest("hex") !== oid)
      throw lasting(`${named} is not what its pointer says: ${bytes} bytes, expected ${size} of that hash`);
    const input = openSync(path, "r");
    try {
      const written = await git.run(["hash-object", "-w", "--stdin"], { input, signal, timeoutMs: 10 * 60_000 });
      return written.stdout.toString("latin1").trim();
    } finally {
      closeSync(input);
    }
  } finally {
    closeSync(output);
    rmSync(path, { force: true });
  }
};

/** The headers that a server's offer may add to a request, without those that frame the request. */
const headersIn = (given: Record<string, string>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(given)
      .filter(
        ([name, value]) => /^(?:authorization|accept|x-[\w-]{1,100})$/i.test(name) && /^[ -~]{0,8192}$/.test(value),
      )
      .map(([name, value]) => [name.toLowerCase(), value]),
  );
