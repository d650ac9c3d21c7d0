import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Device } from "../discreet-client.js";
import { longest } from "../law.js";
import { honest, serve, storage } from "./server.js";

const PROMISE = { epsilon: 1, contributions: 2 };
const ROWS = [[0.6, 0.123456789, 0], [0, 0.987654321, -0.5]];
const [{ terms: VECTOR }] = JSON.parse(readFileSync(new URL("./sealed.json", import.meta.url)));
const posts = (seen) => seen.filter(({ method }) => method === "POST");

/** The terms of a policy, as its server and its relay state them. */
function termsOf(policy, change = {}) {
  const digest = createHash("sha256").update(JSON.stringify(policy)).digest("hex");
  return { ...VECTOR, bandit: "ads", policy: `${policy.epoch}-${policy.version}`, digest, size: 320, ...change };
}

/** A server and a relay; `says` is what each of them answers to a GET. */
async function pair(t, { server = {}, relay = {}, policy = honest() } = {}) {
  const says = (change) => ({ method, url }) => {
    if (method === "POST") return [200, { status: "accepted" }];
    return [200, url.endsWith("/terms") ? termsOf(policy, change) : policy];
  };
  return [await serve(t, says(server)), await serve(t, says(relay))];
}

test("through a relay: the server sees questions asked, the relay a sealed report, nobody both", async (t) => {
  const [server, relay] = await pair(t);
  const { path, kept } = storage(t);
  const device = new Device(server.url, "ads", { ...PROMISE, storage: kept, relay: relay.url });
  assert.equal(await device.report(await device.decide(ROWS), 0.31415926), "accepted");
  assert.equal(posts(server.seen).length, 0);
  const [{ body, url }, ...others] = posts(relay.seen);
  assert.deepEqual([url, others], ["/v1/bandits/ads/sealed", []]);
  const { id, policy, person, sealed, ...more } = JSON.parse(body);
  assert.deepEqual(more, {});
  assert.match(id, /^[0-9a-f]{32}$/);
  assert.match(person, /^[0-9a-f]{32}$/);
  assert.equal(policy, "e-1");
  assert.equal(Buffer.from(sealed, "base64").length, 320 + 81);
  // What is kept for a retry is sealed already.
  assert.ok(!readFileSync(path, "utf8").includes("values"));
  assert.equal(await device.report(await device.decide(ROWS), 1), "accepted");
  const second = JSON.parse(posts(relay.seen)[1].body);
  assert.equal(second.person, person); // one person, two reports with nothing else in common
  assert.notEqual(second.id, id);
});

test("a person may be named by whoever knows them", async (t) => {
  const [server, relay] = await pair(t);
  const device = new Device(server.url, "ads", { ...PROMISE, storage: storage(t).kept, relay: relay.url, person: "me" });
  await device.report(await device.decide(ROWS), 1);
  assert.equal(JSON.parse(posts(relay.seen)[0].body).person, "me");
});

const LIES = {
  "a relay with a key of its own": { relay: { key: VECTOR.key.replace(/..$/, "00") } },
  "a server with a key for this person": { server: { key: VECTOR.key.replace(/..$/, "00") } },
  "a policy for this person": { relay: { digest: "00".repeat(32) }, server: { digest: "00".repeat(32) } },
  "another policy": { relay: { policy: "e-2" }, server: { policy: "e-2" } },
  "another bandit's terms": { relay: { bandit: "bds" }, server: { bandit: "bds" } },
  "another size of the batch": { relay: { batch: 5 } },
  "a field that only one of them states": { relay: { more: 1 } },
};
for (const [lie, says] of Object.entries(LIES))
  test(`${lie}: nothing is drawn and nothing sent`, async (t) => {
    const [server, relay] = await pair(t, says);
    const device = new Device(server.url, "ads", { ...PROMISE, storage: storage(t).kept, relay: relay.url });
    await assert.rejects(device.report(await device.decide(ROWS), 1), /do not agree/);
    assert.equal(posts([...server.seen, ...relay.seen]).length, 0);
    assert.equal((await device.kept()).sent, 0);
  });

test("a size that only some reports fit is refused: whether it does must not depend on the record", async (t) => {
  const policy = honest();
  const most = longest(policy, "e-1");
  for (const [size, fits] of [[most - 1, false], [most, true], [2 ** 21, false]]) {
    const [server, relay] = await pair(t, { server: { size }, relay: { size }, policy });
    const device = new Device(server.url, "ads", { ...PROMISE, storage: storage(t).kept, relay: relay.url });
    const sent = device.report(await device.decide(ROWS), 1);
    if (fits) assert.equal(await sent, "accepted");
    else await assert.rejects(sent, /size/);
  }
});
