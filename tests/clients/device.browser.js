// clients/js in a real Chromium, on another origin than the server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { browser, origin } from "./page.js";

const { URL: url, KEY: key } = process.env;

async function open(context) {
  const page = await context.newPage();
  await page.goto(origin);
  return page;
}

async function create(name, definition) {
  const reply = await fetch(`${url}/v1/bandits/${name}`, {
    method: "PUT", headers: { Authorization: `Bearer ${key}` }, body: JSON.stringify(definition),
  });
  assert.ok(reply.ok);
}

test("the same words give the same report as in Python and Node, bit by bit", async () => {
  const page = await open(await browser.newContext());
  const found = await page.evaluate(async () => {
    const law = await import("/law.js");
    const { differences } = await import("/test/vectors.js");
    const vectors = await (await fetch("/test/vectors.json")).json();
    const same = differences(law, vectors);
    for (const each of vectors.reports) each.words[0] = 2 ** 52 - 1 - each.words[0];
    return [same, differences(law, vectors).length, vectors.reports.length];
  });
  assert.deepEqual(found[0], []);
  assert.ok(found[1] > 100);
  assert.equal(found[2], 325);
});

test("two tabs of one person send one report, from another origin, and nothing but the report", async () => {
  await create("ads", { dim: 3, reward: { range: [0, 1] }, privacy: { epsilon: 2, trust: "local" } });
  const context = await browser.newContext();
  const pages = await Promise.all([open(context), open(context)]);
  const seen = [];
  context.on("request", (request) => {
    if (request.url().startsWith(url)) seen.push(request);
  });
  const statuses = await Promise.all(pages.map((page) => page.evaluate(async (server) => {
    const { Device } = await import("/discreet-client.js");
    const device = new Device(server, "ads", { epsilon: 2 });
    const decision = await device.decide([[0.1234567, 0.7654321, 0.5], [0.2, 0.1, 0.3]]);
    return device.report(decision, 0.9182736);
  }, url)));
  // The other tab may send the same bytes again, or first: they count once.
  assert.ok(["counted", "duplicate"].includes(statuses.sort()[0]));
  assert.equal(statuses[1], "spent");
  const posts = seen.filter((request) => request.method() === "POST");
  assert.equal(new Set(posts.map((request) => request.postData())).size, 1);
  assert.deepEqual(Object.keys(JSON.parse(posts[0].postData())).sort(), ["id", "policy", "question", "values"]);
  for (const request of seen) {
    const bytes = request.url() + JSON.stringify(await request.allHeaders()) + (request.postData() ?? "");
    for (const secret of ["1234567", "7654321", "9182736"]) assert.ok(!bytes.includes(secret));
    assert.equal((await request.allHeaders()).cookie, undefined);
    assert.equal((await request.allHeaders()).referer, undefined);
  }
  const again = await open(context); // after the tabs were closed
  await Promise.all(pages.map((page) => page.close()));
  const kept = await again.evaluate(async (server) => {
    const { Device } = await import("/discreet-client.js");
    return new Device(server, "ads", { epsilon: 2 }).kept();
  }, url);
  assert.deepEqual(kept, { epsilon: 2, contributions: 1, sent: 1, waiting: [] });
});

test("a report that could not be sent is sent by the next page, with the same bytes", async () => {
  await create("later", { dim: 2, reward: { range: [0, 1] }, privacy: { epsilon: 2, trust: "local" } });
  const context = await browser.newContext();
  const page = await open(context);
  const bodies = [];
  const remember = (request) => {
    if (request.method() === "POST") bodies.push(request.postData());
  };
  context.on("request", remember);
  await page.route("**/reports", (route) => route.abort());
  const status = await page.evaluate(async (server) => {
    const { Device } = await import("/discreet-client.js");
    const device = new Device(server, "later", { epsilon: 2 });
    return device.report(await device.decide([[1, 0], [0, 1]]), 1);
  }, url);
  assert.equal(status, "waiting");
  await page.close();
  const next = await open(context);
  const [statuses, sent] = await next.evaluate(async (server) => {
    const { Device } = await import("/discreet-client.js");
    const device = new Device(server, "later", { epsilon: 2 });
    return [Object.values(await device.flush()), (await device.kept()).sent];
  }, url);
  assert.deepEqual([statuses, sent], [["counted"], 1]);
  assert.equal(new Set(bodies).size, 1);
});

test("a reward is delivered by beacon while its page closes, and needs no key", async () => {
  const definition = { actions: ["a", "b"], reward: { range: [0, 1] }, privacy: { epsilon: 1 } };
  await create("closing", definition);
  const headers = { Authorization: `Bearer ${key}` };
  const call = async (path, body) =>
    (await fetch(`${url}/v1/bandits/closing/${path}`, { method: "POST", headers, body: JSON.stringify(body) })).json();
  const { decision } = await call("decide", {});
  const page = await open(await browser.newContext());
  await page.evaluate(([server, token]) => {
    return import("/discreet-client.js").then(({ Client }) => {
      addEventListener("pagehide", () => new Client(server).learn("closing", token, 1));
    });
  }, [url, decision]);
  await page.close({ runBeforeUnload: true });
  let status;
  for (let i = 0; i < 100 && status !== "duplicate"; i++) {
    await new Promise((done) => setTimeout(done, 30));
    if (i >= 20) status = (await call("learn", { decision, reward: 1 })).status;
  }
  assert.equal(status, "duplicate"); // it had been counted
});
