import { leanMemory } from "./lean-memory.ts";

/** In each worker: what it starts has the memory that it has without tests. */

for (const name of Object.keys(leanMemory)) delete process.env[name];
