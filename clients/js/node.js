// Where a device in Node keeps its count and its reports: a file, written whole or not at all.
import { open, readFile, rename, unlink } from "node:fs/promises";
import { dirname } from "node:path";

const PATIENCE = 10_000; // milliseconds to wait for another process

export function fileStorage(path) {
  let tail = Promise.resolve();
  const exclusive = async (work) => {
    const ends = Date.now() + PATIENCE;
    for (;;) {
      try {
        await (await open(`${path}.lock`, "wx", 0o600)).close();
        break;
      } catch (error) {
        if (error.code !== "EEXIST") throw error;
        if (Date.now() > ends)
          throw new Error(`${path}.lock is held: remove it if no other process uses this device`);
        await new Promise((done) => setTimeout(done, 5));
      }
    }
    try {
      return await work();
    } finally {
      await unlink(`${path}.lock`);
    }
  };
  return {
    async get() {
      try {
        return JSON.parse(await readFile(path, "utf8"));
      } catch (error) {
        if (error.code === "ENOENT") return undefined;
        throw error;
      }
    },
    async set(value) {
      const file = await open(`${path}.partial`, "w", 0o600);
      try {
        await file.writeFile(JSON.stringify(value));
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(`${path}.partial`, path);
      const folder = await open(dirname(path), "r");
      try {
        await folder.sync(); // the new name, too, survives a power failure
      } finally {
        await folder.close();
      }
    },
    lock(work) {
      const done = tail.then(() => exclusive(work));
      tail = done.catch(() => {});
      return done;
    },
  };
}
