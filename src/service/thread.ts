import { cleanChecking, redacting } from "../redact.ts";
import { serveJobs } from "../thread.ts";
import { eventReading } from "../forge/read.ts";
import { diffReading } from "../task/workspace/read-diff.ts";
import { fitting } from "../tool/edit/patch-fit.ts";
import { editing } from "../tool/edit/replace.ts";
import { naming, rendering } from "../tool/file/matches.ts";
import { paging } from "../tool/file/page.ts";
import { messageJob } from "../tool/mcp/message.ts";
import { outputReading, schemaReading } from "../tool/output/schema.ts";
import { removal } from "../workspace/file/remove-tree.ts";
import { readable } from "../tool/web/readable.ts";
import { listing, tidying } from "../workspace/file/walk.ts";
import { entryReading, linkReading } from "../workspace/tamper/indexes.ts";
import { hiddenReading } from "../workspace/tree/hidden-flag.ts";

/**
 * The entry point of the worker threads that `src/thread.ts` starts, with every job of the service. Started by its path
 * (`scripts/build.mjs`).
 */

serveJobs([
  listing,
  tidying,
  removal,
  editing,
  schemaReading,
  outputReading,
  fitting,
  paging,
  naming,
  rendering,
  readable,
  redacting,
  cleanChecking,
  diffReading,
  messageJob,
  hiddenReading,
  linkReading,
  entryReading,
  eventReading,
]);
