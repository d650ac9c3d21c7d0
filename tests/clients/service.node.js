// clients/js in Node against a real server.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { Client, Device } from "../../clients/js/discreet-client.js";
import { fileStorage } from "../../clients/js/node.js";

const { URL: url, KEY: key, FOLDER: folder } = process.env;
const DEFINITION = {
  context: { age: { number: [18, 90] }, plan: { category: ["basic", "gold"] } },
  actions: ["email", "call"],
  reward: { range: [0, 1] },
};

async function call(method, path, body) {
  const headers = { Authorization: `Bearer ${key}` };
  const reply = await fetch(`${url}${path}`, { method, headers, body: JSON.stringify(body) });
  assert.ok(reply.ok, await reply.clone().text());
  return reply.json();
}

test("joint trust: a decision, its reward, and its retry", async () => {
  await call("PUT", "/v1/bandits/joint", { ...DEFINITION, privacy: { epsilon: 1 } });
  const client = new Client(url, key);
  const decided = await client.decide("joint", { age: 40, plan: "gold" });
  assert.ok(DEFINITION.actions.includes(decided.action));
  assert.equal(await client.learn("joint", decided, 1), "counted");
  assert.equal(await client.learn("joint", decided.decision, 1), "duplicate");
  const many = await client.decideMany("joint", [{ age: 20, plan: "basic" }, { age: 60, plan: "gold" }]);
  assert.deepEqual(await client.learnMany("joint", many.map((each) => [each, 0])), ["counted", "counted"]);
  const [other] = await client.decideMany("joint", [{ age: 20, plan: "basic" }]);
  assert.equal(await new Client(url).learn("joint", other, 1), "counted"); // the token is the authority
  await assert.rejects(new Client(url).decide("joint", {}), { kind: "unauthorized" });
});

test("local trust: many devices fill a window, and the server learns from their reports", async () => {
  const privacy = { epsilon: 8, trust: "local" };
  await call("PUT", "/v1/bandits/local", { ...DEFINITION, privacy });
  const { window } = await call("GET", "/v1/bandits/local");
  const statuses = [];
  let first;
  for (let person = 0; person <= window.rounds; person++) {
    const storage = fileStorage(join(folder, `device-${person}.json`));
    const device = new Device(url, "local", { epsilon: 8, storage });
    const decision = await device.decide({ age: 20 + (person % 60), plan: person % 2 ? "basic" : "gold" });
    first ??= [device, decision];
    statuses.push(await device.report(decision, decision.action === "call" ? 1 : 0));
  }
  assert.deepEqual(new Set(statuses), new Set(["counted"]));
  const shown = await call("GET", "/v1/bandits/local");
  assert.deepEqual(shown.reports, { taken: window.rounds + 1, refused: 0 });
  assert.equal(shown.policy, 2);
  assert.equal(await first[0].report(await first[0].decide({ age: 30, plan: "gold" }), 1), "spent");
});
