import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, ServiceError } from "../discreet-client.js";
import { serve } from "./server.js";

const DECIDED = { decision: "dt1.token", action: "email", probability: 0.5, policy: 1 };

test("decides and learns with its key", async (t) => {
  const { seen, url } = await serve(t, ({ url: path }) => [
    200, path.endsWith("decide") ? DECIDED : { status: "counted" },
  ]);
  const client = new Client(`${url}/`, "dk_key");
  assert.deepEqual(await client.decide("a b", { age: 4 }, { actions: ["email"] }), DECIDED);
  assert.equal(await client.learn("a b", DECIDED, 1), "counted");
  assert.deepEqual(seen.map(({ url: path }) => path), ["/v1/bandits/a%20b/decide", "/v1/bandits/a%20b/learn"]);
  assert.deepEqual(JSON.parse(seen[0].body), { context: { age: 4 }, actions: ["email"] });
  assert.deepEqual(JSON.parse(seen[1].body), { decision: "dt1.token", reward: 1 });
  assert.equal(seen[0].headers.authorization, "Bearer dk_key");
});

test("a reward that got no answer is sent again with the same token", async (t) => {
  const answers = [undefined, [503, {}], [200, { status: "duplicate" }]];
  const { seen, url } = await serve(t, ({ number }) => answers[number - 1]);
  assert.equal(await new Client(url, "dk_key").learn("ads", "dt1.token", 0.5), "duplicate");
  assert.equal(new Set(seen.map(({ body }) => body)).size, 1);
  assert.equal(seen.length, 3);
});

test("a refusal is told at once, with its kind", async (t) => {
  const problem = { type: "urn:discreet:problem:unauthorized", title: "A valid API key is needed." };
  const { seen, url } = await serve(t, () => [401, problem]);
  await assert.rejects(new Client(url, "no").decide("ads", {}), (error) => {
    assert.ok(error instanceof ServiceError);
    assert.deepEqual([error.status, error.kind], [401, "unauthorized"]);
    return true;
  });
  assert.equal(seen.length, 1);
});

test("while a page closes a reward goes by beacon, without a key", async (t) => {
  const sent = [];
  Object.defineProperty(globalThis, "document", { value: { visibilityState: "hidden" }, configurable: true });
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  const navigator = { sendBeacon: (...beacon) => sent.push(beacon) > 0 };
  Object.defineProperty(globalThis, "navigator", { value: navigator, configurable: true });
  t.after(() => {
    delete globalThis.document;
    if (before) Object.defineProperty(globalThis, "navigator", before);
    else delete globalThis.navigator;
  });
  assert.equal(await new Client("https://x.test", "dk_key").learn("ads", DECIDED, 1), "sent");
  assert.deepEqual(sent, [["https://x.test/v1/bandits/ads/learn", '{"decision":"dt1.token","reward":1}']]);
});
