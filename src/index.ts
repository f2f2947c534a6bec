import "./disposable.ts";
/** The exports of the package: the embedded service and the typed client. The client alone is `sortie/client`. */
export { createServiceClient, type ClientOptions, type ServiceClient, type StreamFrame } from "./client/client.ts";
export { type Config, type Flags, loadConfig } from "./config/config.ts";
export { createLog, type Log, silent } from "./log.ts";
export { createService, type Service } from "./service/service.ts";
export { version } from "./package-root.ts";
