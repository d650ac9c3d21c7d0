import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as law from "../law.js";
import { differences } from "./vectors.js";

const vectors = JSON.parse(readFileSync(new URL("./vectors.json", import.meta.url)));

test("the same words give the same report as Python's, bit by bit", () => {
  assert.equal(vectors.reports.length, 325);
  assert.deepEqual(differences(law, vectors), []);
});

test("another word gives another report: the comparison can fail", () => {
  const changed = structuredClone(vectors);
  for (const each of changed.reports) each.words[0] = 2 ** 52 - 1 - each.words[0];
  assert.ok(differences(law, changed).length > 100);
});

test("the device computes the same channels as Python", () => {
  const local = vectors.policies.filter(({ batch }) => !batch);
  assert.equal(local.length, 20);
  for (const policy of local) law.check(policy, policy);
});
