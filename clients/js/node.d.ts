import type { Storage } from "./index.js";

/** A file of the device; `path.lock` is held while it changes. */
export function fileStorage(path: string): Storage;
