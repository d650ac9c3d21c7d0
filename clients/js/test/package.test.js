import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { bundled, COPIES } from "../build.js";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

test("the module has at most 9 kB gzipped", () => {
  assert.ok(gzipSync(readFileSync(here("../discreet-client.js")), { level: 9 }).length <= 9000);
});

test("what is shipped is what the sources say, in npm's package and in the service", async () => {
  const expected = await bundled();
  for (const copy of COPIES) assert.equal(readFileSync(here(`../${copy}`), "utf8"), expected, copy);
});

test("no randomness but the platform's, no mathematics that engines may round in their own way", () => {
  const code = readFileSync(here("../discreet-client.js"), "utf8");
  const used = new Set([...code.matchAll(/Math\.(\w+)/g)].map(([, name]) => name));
  const exact = ["abs", "ceil", "exp", "floor", "max", "min", "sqrt", "PI"];
  assert.deepEqual([...used].filter((name) => !exact.includes(name)), []);
  assert.match(code, /crypto\.getRandomValues/);
});

test("types fit", () => {
  const tsc = here("../node_modules/typescript/bin/tsc");
  const options = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"];
  execFileSync(process.execPath, [tsc, ...options, here("types.ts")], { cwd: here(".."), encoding: "utf8" });
});
