import { ServiceError } from "../../error.ts";
import { type CheckSpec, maxPixels, type VisualCheck, viewport as form } from "../../protocol/check.ts";
import type { Limits } from "../../protocol/limit.ts";
import type { TaskCreate } from "../../protocol/task/request.ts";
import type { Blobs } from "../../store/store.ts";
import { createFiles, FileRefused } from "../../workspace/file/files.ts";

/**
 * Baseline images of visual checks. They are stored with the Task when it is created, so that no agent can change what
 * its work is compared with.
 */

type From = {
  attachments: readonly { filename: string; load: () => Promise<Buffer | undefined> }[];
  directory: string;
  blobs: Blobs;
  limits: Limits;
};

const usual = { width: 1280, height: 720 };

/**
 * Stores the baseline of each visual check that names one. `given`: the checks as requested, in the order of `specs`.
 */
export const withBaselines = (
  specs: readonly CheckSpec[],
  given: NonNullable<TaskCreate["checks"]>,
  from: From,
): Promise<CheckSpec[]> =>
  Promise.all(
    specs.map(async (spec, index) => {
      const check = given[index];
      if (spec.kind !== "visual" || typeof check !== "object" || check.kind !== "visual") return spec;
      return typeof check.baseline === "string"
        ? withBaseline(spec, check.baseline, check.viewport, `body.checks[${index}].baseline`, from)
        : spec;
    }),
  );

export const viewportOf = (given: VisualCheck["viewport"] | undefined): VisualCheck["viewport"] => given ?? usual;

const withBaseline = async (
  spec: VisualCheck,
  name: string,
  asked: VisualCheck["viewport"] | undefined,
  at: string,
  { attachments, directory, blobs, limits }: From,
): Promise<VisualCheck> => {
  const refuse = (message: string) =>
    new ServiceError("invalid_request", `${at}: ${message}.`, { issues: [{ path: at, message, code: "custom" }] });
  const attached = attachments.find(({ filename }) => filename === name);
  const bytes =
    (await attached?.load()) ??
    (await createFiles(directory)
      .read(name, limits.attachmentBytes)
      .then(
        (file) => file.bytes,
        (error: unknown) => {
          if (error instanceof FileRefused)
            throw refuse(
              error.kind === "missing"
                ? `Expected the name of an attachment or a file of the project, got ${JSON.stringify(name)}`
                : error.message,
            );
          throw error;
        },
      ));
  const size = sizeOf(bytes);
  if (size === undefined) throw refuse(`Expected a PNG image, got other bytes in ${JSON.stringify(name)}`);
  const viewport = asked ?? size;
  if (!form.safeParse(size).success || size.width !== viewport.width || size.height !== viewport.height)
    throw refuse(
      asked === undefined
        ? `Expected an image of 16 to 4096 pixels a side and at most ${maxPixels} in all, got ${size.width}×${size.height}`
        : `Expected an image of the viewport's ${viewport.width}×${viewport.height} pixels, got ${size.width}×${size.height}`,
    );
  const kept = await blobs.put(bytes);
  return { ...spec, viewport, against: { name, ...kept } };
};

/** The size of a PNG, read from its header; undefined for anything else. */
const sizeOf = (bytes: Buffer): { width: number; height: number } | undefined =>
  bytes.length > 24 && bytes.toString("latin1", 0, 8) === "\x89PNG\r\n\x1a\n"
    ? { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) }
    : undefined;
