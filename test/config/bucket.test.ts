import { expect, test } from "vitest";
import { bucketOf } from "../../src/config/bucket.ts";

/** `SERVICE_BLOBS=s3://…` and the variables that go with it. */

const account = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret" };
const read = (text: string, env: Record<string, string> = {}) =>
  bucketOf(text, { ...account, ...env }, (problem) => new Error(problem));

test("bucket, prefix, endpoint and region", () => {
  expect(read("s3://team.blobs/sortie/one/")).toEqual({
    bucket: "team.blobs",
    prefix: "sortie/one",
    endpoint: undefined,
    region: "us-east-1",
    accessKeyID: "id",
    secretAccessKey: "secret",
    sessionToken: undefined,
  });
  const env = { AWS_ENDPOINT_URL: "http://minio:9000", AWS_DEFAULT_REGION: "eu-west-1", AWS_SESSION_TOKEN: "t" };
  expect(read("s3://team", env)).toMatchObject({
    prefix: "",
    endpoint: "http://minio:9000",
    region: "eu-west-1",
    sessionToken: "t",
  });
  expect(read("s3://team", { ...env, AWS_ENDPOINT_URL_S3: "https://s3.example", AWS_REGION: "x-1" })).toMatchObject({
    endpoint: "https://s3.example",
    region: "x-1",
  });
});

test("what is no address of a bucket, or lacks an account, is said; another place is none of its business", () => {
  expect(read("database")).toBeUndefined();
  for (const text of ["s3://", "s3://Team", "s3:team", "s3://team?x=1", "s3://t/../x#y"])
    expect(() => read(text)).toThrow("Expected SERVICE_BLOBS to be s3://bucket/prefix");
  expect(() => read("s3://team", { AWS_ACCESS_KEY_ID: "" })).toThrow("needs AWS_ACCESS_KEY_ID");
  expect(() => read("s3://team", { AWS_ENDPOINT_URL_S3: "minio:9000" })).toThrow("an http or https address");
});
