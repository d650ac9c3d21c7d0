// Devices of clients/js in a real Chromium, which report through a real relay.
import assert from "node:assert/strict";
import { test } from "node:test";
import { browser, origin } from "./page.js";

const { URL: url, RELAY: relay, PEOPLE: people, EPSILON: epsilon, DELTA: delta } = process.env;
const page = await (await browser.newContext()).newPage();
await page.goto(origin);

test("the same keys seal to the same bytes as in Node", async () => {
  const found = await page.evaluate(async () => {
    const { seal, toHex } = await import("/sealing.js");
    const curve = { name: "ECDH", namedCurve: "P-256" };
    const vectors = await (await fetch("/test/sealed.json")).json();
    const same = [];
    for (const { terms, text, device, sealed } of vectors) {
      const { d, ...open } = device;
      const pair = {
        privateKey: await crypto.subtle.importKey("jwk", device, curve, true, ["deriveBits"]),
        publicKey: await crypto.subtle.importKey("jwk", { ...open, key_ops: [] }, curve, true, []),
      };
      same.push(toHex(await seal(terms, text, pair)) === sealed);
    }
    return same;
  });
  assert.deepEqual(found, [true, true, true, true]);
});

test("a window of people reports through the relay, and the server gets no report from them", async () => {
  const seen = [];
  page.on("request", (request) => seen.push(request));
  const statuses = await page.evaluate(async ([server, by, count, limits]) => {
    const { Device } = await import("/discreet-client.js");
    const memory = () => {
      let kept;
      return { get: async () => kept, set: async (value) => (kept = value), lock: (work) => work() };
    };
    const found = [];
    for (let person = 0; person < count; person++) {
      const device = new Device(server, "ads", { ...limits, relay: by, storage: memory() });
      found.push(await device.report(await device.decide([[0.1234567, 0.7], [0, 0.2]]), 0.9182736));
    }
    return found;
  }, [url, relay, Number(people), { epsilon: Number(epsilon), delta: Number(delta) }]);
  assert.deepEqual(new Set(statuses), new Set(["accepted"]));
  const posts = seen.filter((request) => request.method() === "POST");
  assert.equal(posts.length, Number(people));
  for (const request of posts) {
    assert.equal(request.url(), `${relay}/v1/bandits/ads/sealed`);
    assert.deepEqual(Object.keys(JSON.parse(request.postData())), ["id", "policy", "person", "sealed"]);
    for (const secret of ["1234567", "9182736", "values"]) assert.ok(!request.postData().includes(secret));
  }
  assert.equal(new Set(posts.map((request) => request.postData().length)).size, 1);
});
