// Policies of every size, from Python: honest ones pass a device's checks, slightly greedy ones do not.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { check, COINS } from "../../clients/js/law.js";

const { local: policies, shuffled } = JSON.parse(readFileSync(process.env.POLICIES));
const limits = ({ batch }) => ({
  epsilon: batch.epsilon, contributions: 1, delta: batch.delta, localEpsilon: batch.local_epsilon,
});

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
      assert.throws(() => check(changed, changed), /not this device's/, `${policy.theta.length} ${policy.epsilon}`);
    }
  }
});

test("what a batch hides is the server's bound, and a batch that hides less is refused", () => {
  let tried = 0;
  for (const policy of shuffled) {
    check(policy, limits(policy));
    const { batch, epsilon } = policy;
    if (epsilon > batch.local_epsilon * 0.999) continue; // the cap holds it, and not the crowd
    if (epsilon < batch.epsilon * 1.001) continue; // needs no crowd
    tried += 1;
    const smaller = { ...policy, batch: { ...batch, honest: Math.floor(batch.honest * 0.97) } };
    assert.throws(() => check(smaller, limits(policy)), /too small to hide in/, JSON.stringify(batch));
    const strict = { ...limits(policy), delta: batch.delta * 0.9 };
    assert.throws(() => check({ ...policy, batch: { ...batch, delta: strict.delta } }, strict), /too small/);
  }
  assert.ok(tried >= 6, String(tried));
});

test("limits of a person that a batch goes beyond refuse it", () => {
  const [policy] = shuffled;
  for (const [change, words] of [
    [{ epsilon: policy.batch.epsilon * 0.99 }, /more epsilon/],
    [{ delta: policy.batch.delta * 0.99 }, /more epsilon/],
    [{ localEpsilon: policy.epsilon * 0.99 }, /by themselves/],
    [{ delta: 0 }, /crowd/],
    [{ contributions: 2 }, /contributions 1/], // two batches would cost twice
  ])
    assert.throws(() => check(policy, { ...limits(policy), ...change }), words);
  for (const batch of [{ honest: policy.batch.minimum + 1 }, { minimum: policy.batch.size + 1 }, { size: 1.5 }])
    assert.throws(() => check({ ...policy, batch: { ...policy.batch, ...batch } }, limits(policy)), /batch/);
});
