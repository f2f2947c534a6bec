import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as wait } from "node:timers/promises";

export type Delay = { wallMs: number; cpuMs: number; monitorMs: number };

export const delayDuring = async <T>(work: () => Promise<T> | T): Promise<{ value: T; delay: Delay }> => {
  const delay: Delay = { wallMs: 0, cpuMs: 0, monitorMs: 0 };
  let at = performance.now();
  let cpu = process.threadCpuUsage();
  const sample = () => {
    const now = performance.now();
    const { user, system } = process.threadCpuUsage(cpu);
    delay.wallMs = Math.max(delay.wallMs, now - at);
    delay.cpuMs = Math.max(delay.cpuMs, (user + system) / 1000);
    at = now;
    cpu = process.threadCpuUsage();
  };
  await wait(20);
  const monitor = monitorEventLoopDelay({ resolution: 5 });
  at = performance.now();
  cpu = process.threadCpuUsage();
  const timer = setInterval(sample, 1);
  monitor.enable();
  try {
    const value = await work();
    await wait(5);
    sample();
    return { value, delay };
  } finally {
    clearInterval(timer);
    monitor.disable();
    delay.monitorMs = monitor.max / 1e6;
  }
};
