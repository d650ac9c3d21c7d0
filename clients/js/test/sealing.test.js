import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { base64, digest, seal, toHex } from "../sealing.js";
import { pairOf } from "./sealed.js";

const vectors = JSON.parse(readFileSync(new URL("./sealed.json", import.meta.url)));

test("the same keys seal to the same bytes, which Python opens", async () => {
  assert.equal(vectors.length, 4);
  for (const { terms, text, device, sealed } of vectors)
    assert.equal(toHex(await seal(terms, text, await pairOf(device))), sealed);
});

test("what a report is bound to changes its bytes: the comparison can fail", async () => {
  const [{ terms, text, device, sealed }] = vectors;
  for (const change of [{ bandit: "bds" }, { policy: "0123456789abcdef-4" }, { digest: "00" }, { size: 128 }])
    assert.notEqual(toHex(await seal({ ...terms, ...change }, text, await pairOf(device))), sealed);
});

test("all reports have one length, and two seals of one report have nothing in common", async () => {
  const [{ terms }] = vectors;
  const made = await Promise.all(["", "{}", "{}", "x".repeat(64)].map((text) => seal(terms, text)));
  assert.deepEqual(new Set(made.map((each) => each.length)), new Set([64 + 81]));
  assert.equal(new Set(made.map(base64)).size, 4);
  await assert.rejects(seal(terms, "x".repeat(65)), RangeError);
});

test("a digest is the one of the bytes", async () => {
  assert.equal(await digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
});
