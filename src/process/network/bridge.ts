import { spawn } from "node:child_process";
import { connect, createServer } from "node:net";

/**
 * A separate process with no network but a loopback interface: it listens there on behalf of the sandbox that it opens
 * in the same network namespace, and passes every connection on to the socket of a proxy. It runs outside of the
 * sandbox, so that no command can end it, take its place or see the socket.
 *
 * Arguments: the socket, the port, how many descriptors the sandbox gets, then the sandbox's command line. Imports only
 * Node's modules, because the file is run as it is.
 */

const [socketPath = "", port = "", descriptors = "3", file = "", ...args] = process.argv.slice(2);

const server = createServer({ allowHalfOpen: true }, (client) => {
  const upstream = connect({ path: socketPath, allowHalfOpen: true });
  client.pipe(upstream).pipe(client);
  for (const [one, other] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    one.on("error", () => other.destroy());
    one.on("close", () => other.destroy());
  }
});

server.once("error", (error) => {
  process.stderr.write(`the way to the allowed hosts could not be opened: ${error.message}\n`);
  process.exit(1);
});

server.listen({ host: "127.0.0.1", port: Number(port) }, () => {
  const child = spawn(file, args, { stdio: [0, 1, 2, 3].slice(0, Number(descriptors)) });
  child.once("error", (error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  });
  child.once("exit", (code) => process.exit(code ?? 1));
});
