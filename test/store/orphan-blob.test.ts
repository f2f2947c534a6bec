import { existsSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { newID } from "../../src/id.ts";
import { removeOrphanBlobs } from "../../src/store/blob/sweep.ts";
import { created } from "../harness/events.ts";
import type { Place } from "../harness/store.ts";
import { type Case, onEveryStore } from "./suite.ts";

/** Blobs of erased streams, on every implementation: those that nobody else names go, and no others. */

const files = ({ store, dataDir }: Place) => {
  const pathOf = (sha256: string) => join(dataDir, "blobs", sha256.slice(0, 2), sha256);
  /** As if it had been put that long ago. */
  const age = (sha256: string, minutes = 60) => {
    const at = new Date(Date.now() - minutes * 60_000);
    utimesSync(pathOf(sha256), at, at);
  };
  return {
    age,
    stands: (sha256: string) => existsSync(pathOf(sha256)),
    put: async (text: string, minutes?: number): Promise<string> => {
      const { sha256 } = await store.blobs.put(Buffer.from(text));
      age(sha256, minutes);
      return sha256;
    },
    /** A Task with these attachments. */
    task: async (...named: string[]): Promise<string> => {
      const attachments = named.map((sha256) => ({ filename: "f", mime: "text/plain", bytes: 1, sha256 }));
      const event = created({ taskID: newID("task"), attachments });
      const done = await store.commit({ appends: [{ stream: event.data.taskID, expected: 0, events: [event] }] });
      if (!done.ok) throw new Error(done.reason);
      return event.data.taskID;
    },
    erase: async (stream: string, expected?: number): Promise<boolean> => {
      await store.orphans.markOrphans(stream);
      return store.erase(stream, expected);
    },
    sweep: () => removeOrphanBlobs(store),
  };
};

const cases: Case[] = [
  {
    name: "what only an erased stream named is dropped; what another names stays, until that is erased, too",
    async run(place) {
      const { put, task, erase, sweep, stands } = files(place);
      const [own, shared, others, nobodys] = [
        await put("own"),
        await put("shared"),
        await put("other"),
        await put("no"),
      ];
      const first = await task(own, shared);
      const second = await task(shared, others);
      await sweep();
      expect([own, shared, others, nobodys].map(stands)).toEqual([true, true, true, true]);
      expect(await erase(first)).toBe(true);
      await sweep();
      // What no stream ever named is none of its business.
      expect([own, shared, others, nobodys].map(stands)).toEqual([false, true, true, true]);
      expect(await erase(second)).toBe(true);
      await sweep();
      expect([own, shared, others, nobodys].map(stands)).toEqual([false, false, false, true]);
    },
  },
  {
    name: "what a stream released is dropped, unless another names it; the stream's other blobs stay",
    async run(place) {
      const { put, task, sweep, stands } = files(place);
      const [old, shared, kept] = [await put("old"), await put("both"), await put("kept")];
      const stream = await task(old, shared, kept);
      await task(shared);
      await place.store.orphans.release(stream, [old, shared]);
      // A second time, as after a kill.
      await place.store.orphans.release(stream, [old, shared]);
      await sweep();
      expect([old, shared, kept].map(stands)).toEqual([false, true, true]);
    },
  },
  {
    name: "a blob that was put a moment ago stays for whoever is about to name it, also when it stood there already",
    async run(place) {
      const { put, task, erase, stands, age, sweep } = files(place);
      const young = await put("young", 5);
      const again = await put("again");
      expect(await erase(await task(young, again))).toBe(true);
      await place.store.blobs.put(Buffer.from("again"));
      expect(await sweep()).toBe(0);
      await task(again);
      age(young);
      age(again);
      await sweep();
      expect([young, again].map(stands)).toEqual([false, true]);
      expect(await place.store.blobs.get(again)).toEqual(Buffer.from("again"));
    },
  },
  {
    name: "a put and a drop at once leave the blob whole",
    async run({ store }) {
      for (let turn = 0; turn < 50; turn += 1) {
        const bytes = Buffer.from(`bytes ${turn}`);
        const { sha256 } = await store.blobs.put(bytes);
        const [, dropped] = await Promise.all([
          store.blobs.put(bytes),
          store.blobs.drop(sha256),
          store.blobs.put(bytes),
        ]);
        expect(dropped).toBe("young");
        expect(await store.blobs.get(sha256)).toEqual(bytes);
      }
    },
  },
  {
    name: "an erase that is refused costs nobody anything",
    async run(place) {
      const { put, task, erase, stands, sweep } = files(place);
      const own = await put("own");
      const stream = await task(own);
      expect(await erase(stream, 7)).toBe(false);
      await sweep();
      expect(stands(own)).toBe(true);
    },
  },
  {
    name: "what a process left is swept by the next one",
    needs: "reopen",
    async run(place) {
      const { put, task, erase } = files(place);
      const own = await put("own");
      expect(await erase(await task(own))).toBe(true);
      await place.reopen?.();
      const after = files(place);
      await after.sweep();
      expect(after.stands(own)).toBe(false);
    },
  },
];

onEveryStore(cases);
