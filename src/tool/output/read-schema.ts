import { ServiceError } from "../../error.ts";
import type { TaskCreate } from "../../protocol/task/request.ts";
import { inThread, ThreadLimit } from "../../thread.ts";
import { maxSchemaBytes, schemaReading } from "./schema.ts";

/** The schema as a text, once it is known that outputs can be validated against it. Throws `output_schema_invalid`. */
export const readSchema = async (schema: TaskCreate["outputSchema"]): Promise<string | undefined> => {
  if (schema === undefined) return undefined;
  const text = JSON.stringify(schema);
  const bytes = Buffer.byteLength(text);
  const problem =
    bytes > maxSchemaBytes
      ? `Expected at most ${maxSchemaBytes} bytes, got ${bytes}`
      : await inThread(schemaReading, text, { timeoutMs: 20_000 }).catch((error: unknown) => {
          if (error instanceof ThreadLimit) return "Expected a schema that can be read in time, got one that cannot";
          throw error;
        });
  if (problem === null) return text;
  throw new ServiceError("output_schema_invalid", `outputSchema: ${problem}.`, {
    issues: [{ path: "body.outputSchema", message: problem, code: "custom" }],
  });
};
