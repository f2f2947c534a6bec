/**
 * Parses `SERVICE_BLOBS=s3://bucket/prefix`; endpoint and credentials come from the variables that other S3 clients
 * read.
 */

export type Bucket = {
  bucket: string;
  /** Without slashes at its ends; "": no prefix. */
  prefix: string;
  /** Without a slash at its end; undefined: Amazon's own endpoint of the region. */
  endpoint: string | undefined;
  region: string;
  accessKeyID: string;
  secretAccessKey: string;
  sessionToken: string | undefined;
};

type Env = Readonly<Record<string, string | undefined>>;

/** Throws the error that `refuse` makes of the problem. undefined: the text is no bucket's address. */
export const bucketOf = (text: string, env: Env, refuse: (problem: string) => Error): Bucket | undefined => {
  const [, bucket, prefix = ""] =
    /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/((?:[\w!.*'()-]{1,100}\/){0,10}[\w!.*'()-]{0,100}))?$/.exec(text) ??
    [];
  if (bucket === undefined) {
    if (!text.startsWith("s3:")) return undefined;
    throw refuse(`Expected SERVICE_BLOBS to be s3://bucket/prefix, got "${text}".`);
  }
  const needed = (name: string, value: string | undefined): string => {
    if (value === undefined || value === "") throw refuse(`SERVICE_BLOBS=${text} needs ${name}. Set it.`);
    return value;
  };
  const endpoint = env["AWS_ENDPOINT_URL_S3"] || env["AWS_ENDPOINT_URL"] || undefined;
  if (endpoint !== undefined && !/^https?:\/\/[^/?#@\s]+(?:\/[^?#\s]*)?$/.test(endpoint))
    throw refuse(`Expected AWS_ENDPOINT_URL_S3 to be an http or https address, got "${endpoint}".`);
  return {
    bucket,
    prefix: withoutSlash(prefix),
    endpoint: endpoint && withoutSlash(endpoint),
    region: env["AWS_REGION"] || env["AWS_DEFAULT_REGION"] || "us-east-1",
    accessKeyID: needed("AWS_ACCESS_KEY_ID", env["AWS_ACCESS_KEY_ID"]),
    secretAccessKey: needed("AWS_SECRET_ACCESS_KEY", env["AWS_SECRET_ACCESS_KEY"]),
    sessionToken: env["AWS_SESSION_TOKEN"] || undefined,
  };
};

const withoutSlash = (text: string): string => (text.endsWith("/") ? text.slice(0, -1) : text);
