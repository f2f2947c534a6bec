import { createHash } from "node:crypto";
import { text as textOf } from "node:stream/consumers";
import type { IncomingMessage, ServerResponse } from "node:http";
import { type GitHost, token } from "./git-host.ts";

/**
 * Large file storage beside a Git host, on the same port: the batch interface of Git LFS and the content, for whoever
 * has the host's token. A request that its description (git-lfs/docs/api/batch.md) does not allow is a violation.
 */

type Answer = { status?: number; headers?: Record<string, string>; body?: string | Buffer };

export type LfsDouble = {
  /** Keeps content; what a repository has in its place. */
  put(content: string | Buffer): { oid: string; pointer: string };
  /** Objects that were asked for, one batch after the other. */
  batches: { repository: string; oids: string[] }[];
  downloads: string[];
  violations: string[];
  /** Answers a batch otherwise. */
  onBatch: ((oids: readonly string[]) => Answer | undefined) | undefined;
  /** Answers a download otherwise. */
  onDownload: ((oid: string) => Answer | undefined | Promise<Answer | undefined>) | undefined;
};

const type = "application/vnd.git-lfs+json";

export const pointerTo = (oid: string, size: number): string =>
  `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${size}\n`;

export const addLfs = (host: GitHost): LfsDouble => {
  const contents = new Map<string, Buffer>();
  const lfs: LfsDouble = {
    put(content) {
      const bytes = Buffer.from(content);
      const oid = createHash("sha256").update(bytes).digest("hex");
      contents.set(oid, bytes);
      return { oid, pointer: pointerTo(oid, bytes.length) };
    },
    batches: [],
    downloads: [],
    violations: [],
    onBatch: undefined,
    onDownload: undefined,
  };
  const send = (outgoing: ServerResponse, { status = 200, headers = {}, body = "" }: Answer) =>
    void outgoing.writeHead(status, headers).end(body);
  const isAdmitted = ({ headers }: IncomingMessage) =>
    headers.authorization === `Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}`;

  const batch = async (repository: string, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const { method, headers } = incoming;
    if (method !== "POST" || headers.accept !== type || headers["content-type"] !== type)
      lfs.violations.push(`${method} ${headers.accept} ${headers["content-type"]}`);
    if (!isAdmitted(incoming)) return send(outgoing, { status: 401, body: '{"message":"who are you?"}' });
    const asked = JSON.parse(await textOf(incoming)) as {
      operation: string;
      transfers?: string[];
      hash_algo?: string;
      objects: { oid: string; size: number }[];
    };
    const { operation, transfers = ["basic"], hash_algo: algorithm = "sha256", objects } = asked;
    if (operation !== "download" || !transfers.includes("basic") || algorithm !== "sha256" || objects.length > 100)
      lfs.violations.push(JSON.stringify(asked));
    const oids = objects.map(({ oid }) => oid);
    lfs.batches.push({ repository, oids });
    const other = lfs.onBatch?.(oids);
    if (other !== undefined) return send(outgoing, { headers: { "content-type": type }, ...other });
    const offers = objects.map(({ oid, size }) =>
      contents.get(oid)?.length === size
        ? { oid, size, actions: { download: { href: `http://127.0.0.1:${host.port}/lfs-content/${oid}` } } }
        : { oid, size, error: { code: 404, message: "Object does not exist" } },
    );
    send(outgoing, { headers: { "content-type": type }, body: JSON.stringify({ transfer: "basic", objects: offers }) });
  };

  const before = host.before;
  host.before = async (incoming, outgoing) => {
    const repository = /^\/(.+)\.git\/info\/lfs\/objects\/batch$/.exec(incoming.url ?? "")?.[1];
    const oid = /^\/lfs-content\/([0-9a-f]{64})$/.exec(incoming.url ?? "")?.[1];
    if (repository !== undefined) await batch(repository, incoming, outgoing);
    else if (oid !== undefined) {
      lfs.downloads.push(oid);
      const other = await lfs.onDownload?.(oid);
      if (!isAdmitted(incoming)) send(outgoing, { status: 401 });
      else send(outgoing, other ?? { body: contents.get(oid) ?? "" });
    } else return (await before?.(incoming, outgoing)) === true;
    return true;
  };
  return lfs;
};
