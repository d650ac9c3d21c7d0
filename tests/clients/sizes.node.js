// Policies of every size, from Python: honest ones pass a device's checks, slightly greedy ones do not.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { check, COINS } from "../../clients/js/law.js";

const policies = JSON.parse(readFileSync(process.env.POLICIES));

test("what a server computes with special functions agrees with a device's series", () => {
  for (const policy of policies) check(policy, policy);
  assert.ok(policies.length > 50);
});

test("odds that are larger by one millionth are refused", () => {
  for (const policy of policies) {
    if (policy.epsilon > 15) continue; // coins of 52 bits leave more than that unspent
    for (const kind of ["gram", "moment", "square"]) {
      const changed = structuredClone(policy);
      const channel = changed.channels[kind];
      const odds = (channel.likely / (COINS - channel.likely)) * (1 + 1e-6);
      channel.likely = Math.floor((COINS * odds) / (1 + odds));
      assert.throws(() => check(changed, changed), /breaks its promise/, `${policy.theta.length} ${policy.epsilon}`);
    }
  }
});
