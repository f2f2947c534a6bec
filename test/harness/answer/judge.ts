import { readFileSync } from "node:fs";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { createRouter } from "../../../src/http/router.ts";

/** Holds answers of the service against the published document: operation, status, code, type and body. */

export type Answered = {
  method: string;
  target: string;
  status: number;
  type: string | undefined;
  /** undefined: not kept, or nothing that a schema describes. */
  body: string | undefined;
  /** What stands behind the HTTP face is a double, whose records are not whole: only refusals count. */
  hollow: boolean;
};

type Content = Record<string, { schema: object }>;
type Operation = {
  operationId: string;
  responses: Record<string, { description: string; content?: Content } | undefined>;
};
type Document = { paths: Record<string, Record<string, Operation>> };

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

/** What is wrong with an answer in one line, or undefined. */
export type Judge = (answered: Answered) => string | undefined;

export const createJudge = (document: Document): Judge => {
  const ajv = new Ajv2020({ strict: false, formats: { "date-time": time, binary: true, base64: true } });
  ajv.addSchema(document, "document");
  const compiled = new Map<object, ValidateFunction>();
  const validatorOf = (schema: object): ValidateFunction => {
    const known = compiled.get(schema);
    if (known !== undefined) return known;
    const text = JSON.stringify(schema).replaceAll('"#/components/', '"document#/components/');
    const made = ajv.compile(JSON.parse(text) as object);
    compiled.set(schema, made);
    return made;
  };
  const errorSchema = { $ref: "#/components/schemas/Error" };
  const fault = (schema: object, value: unknown): string | undefined => {
    const validate = validatorOf(schema);
    if (validate(value)) return undefined;
    const [first] = validate.errors ?? [];
    return `${first?.instancePath} ${first?.message} ${JSON.stringify(first?.params)}`;
  };

  const find = createRouter<Operation>(
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, value]) => ({ method: method.toUpperCase(), path, value })),
    ),
  );

  const operationAt = (method: string, path: string): Operation | undefined => {
    try {
      const found = find(method, path);
      return found.kind === "route" ? found.value : undefined;
    } catch {
      // Escapes that mean nothing are refused before any operation.
      return undefined;
    }
  };

  const refusal = ({ status, body }: Answered, operation: Operation | undefined): string | undefined => {
    const value = body === undefined ? undefined : (JSON.parse(body) as { code?: string; status?: number });
    const wrong = value === undefined ? undefined : fault(errorSchema, value);
    if (wrong !== undefined) return `is no Error: ${wrong}`;
    if (operation === undefined) return undefined;
    const declared = operation.responses[status];
    if (declared === undefined) return `with ${value?.code} is not declared`;
    if (value?.code !== undefined && !declared.description.includes(`\`${value.code}\``))
      return `declares no ${value.code}`;
    return undefined;
  };

  const success = ({ status, type, body, hollow }: Answered, operation: Operation): string | undefined => {
    const declared = operation.responses[status];
    if (hollow) return undefined;
    if (declared === undefined) return "is not declared";
    const { content } = declared;
    if (content === undefined) return type === undefined ? undefined : `declares no body, got ${type}`;
    const found = content[type ?? ""] ?? content["*/*"];
    if (found === undefined) return `declares ${Object.keys(content).join(", ")}, got ${type}`;
    if (body === undefined) return undefined;
    if (type === "application/json") return fault(found.schema, JSON.parse(body));
    if (type !== "text/event-stream") return undefined;
    for (const [line] of body.matchAll(/^data: .*$/gm)) {
      const frame = JSON.parse(line.slice("data: ".length)) as { type?: string };
      const wrong = fault(found.schema, frame);
      if (wrong !== undefined) return `frame ${frame.type}: ${wrong}`;
    }
    return undefined;
  };

  return (answered) => {
    const { method, target, status } = answered;
    const [path = ""] = target.split(/[?#]/, 1);
    // JSON-RPC has errors of its own, a preflight is the browser's, and 417 comes before any operation.
    if (path === "/mcp" || method === "OPTIONS" || status === 417) return undefined;
    const operation = operationAt(method, path);
    const wrong =
      status >= 400 ? refusal(answered, operation) : operation === undefined ? undefined : success(answered, operation);
    return wrong === undefined ? undefined : `${operation?.operationId ?? target} (${method}) ${status} ${wrong}`;
  };
};

let judge: Judge | undefined;

/** Against docs/openapi.json, which test/service/document keeps as the service serves it. */
export const judgeByDocument: Judge = (answered) => {
  judge ??= createJudge(
    JSON.parse(readFileSync(new URL("../../../docs/openapi.json", import.meta.url), "utf8")) as Document,
  );
  return judge(answered);
};
