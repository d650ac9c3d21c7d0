import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Device } from "../discreet-client.js";
import * as law from "../law.js";
import { honest, serve, storage } from "./server.js";

const PROMISE = { epsilon: 1, contributions: 2 };
const ROWS = [[0.6, 0.123456789, 0], [0, 0.987654321, -0.5]];

/** A server that publishes `policy` and counts reports. */
const fair = (policy = honest()) => ({ method }) => [200, method === "GET" ? policy : { status: "counted" }];
const posts = (seen) => seen.filter(({ method }) => method === "POST");

test("a device decides by itself and sends one private report, and nothing else", async (t) => {
  const { seen, url } = await serve(t, fair());
  const device = new Device(url, "ads", { ...PROMISE, storage: storage(t).kept });
  const decision = await device.decide(ROWS);
  assert.ok([0, 1].includes(decision.action));
  assert.ok(decision.probability > 0);
  assert.equal(await device.report(decision, 0.31415926), "counted");
  assert.deepEqual(seen.map(({ method, url: path }) => `${method} ${path}`), [
    "GET /v1/bandits/ads/policy", "GET /v1/bandits/ads/policy", "POST /v1/bandits/ads/reports",
  ]);
  const { id, policy, question, values, ...more } = JSON.parse(seen[2].body);
  assert.deepEqual(more, {});
  assert.match(id, /^[0-9a-f]{32}$/);
  assert.equal(policy, "e-1");
  assert.ok(values.every(Number.isInteger));
  assert.ok(["gram", "moment", "scale"].includes(question));
  for (const { headers, url: path, method, body } of seen) {
    const bytes = JSON.stringify([headers, path, method, body]);
    for (const secret of ["123456789", "987654321", "31415926"]) assert.ok(!bytes.includes(secret));
    for (const name of ["cookie", "authorization", "referer"]) assert.equal(headers[name], undefined);
  }
});

test("the count and the report are on disk before a byte of it is sent; a retry sends the same", async (t) => {
  const { path, kept } = storage(t);
  const states = [];
  let failures = 2;
  const { seen, url } = await serve(t, ({ method }) => {
    if (method === "GET") return [200, honest()];
    states.push(JSON.parse(readFileSync(path, "utf8")));
    if (failures-- > 0) return failures ? undefined : [503, {}];
    return [200, { status: "counted" }];
  });
  const device = new Device(url, "ads", { ...PROMISE, storage: kept });
  assert.equal(await device.report(await device.decide(ROWS), 1), "counted");
  const bodies = posts(seen).map(({ body }) => body);
  assert.equal(bodies.length, 3);
  assert.equal(new Set(bodies).size, 1);
  for (const state of states) {
    const own = state[`${url}/v1/bandits/ads/`];
    assert.equal(own.sent, 1);
    assert.deepEqual(own.waiting.map(({ body }) => body), [bodies[0]]);
  }
  assert.deepEqual(await device.kept(), { ...PROMISE, sent: 1, waiting: [] });
});

test("a device that was interrupted sends the same bytes after a restart, and counts them once", async (t) => {
  const { kept } = storage(t);
  let up = false;
  const { seen, url } = await serve(t, ({ method }) =>
    method === "GET" ? [200, honest()] : up ? [200, { status: "counted" }] : undefined);
  const first = new Device(url, "ads", { ...PROMISE, storage: kept });
  const decision = await first.decide(ROWS);
  assert.equal(await first.report(decision, 1), "waiting");
  up = true;
  const again = new Device(url, "ads", { ...PROMISE, storage: kept });
  assert.deepEqual(Object.values(await again.flush()), ["counted"]);
  assert.equal(new Set(posts(seen).map(({ body }) => body)).size, 1);
  assert.equal(await again.report(decision, 0), "duplicate");
  assert.equal((await again.kept()).sent, 1);
});

test("a report that is refused for good is dropped, and the page hears of it once", async (t) => {
  for (const status of [400, 404, 409, 413, 422]) {
    const heard = [];
    const { seen, url } = await serve(t, ({ method }) =>
      method === "GET" ? [200, honest()] : [status, { type: "urn:discreet:problem:no-reports", title: "No." }]);
    const { kept } = storage(t);
    const onRefused = (error, id) => heard.push([error.status, error.kind, id]);
    const device = new Device(url, "ads", { ...PROMISE, storage: kept, onRefused });
    const decision = await device.decide(ROWS);
    assert.equal(await device.report(decision, 1), "refused");
    const [{ body }] = posts(seen);
    assert.deepEqual(heard, [[status, "no-reports", JSON.parse(body).id]]);
    assert.deepEqual(await device.flush(), {});
    assert.deepEqual(await device.kept(), { ...PROMISE, sent: 1, waiting: [] }); // it was sent: it counts
    assert.equal(await device.report(decision, 1), "duplicate");
    assert.equal(posts(seen).length, 1);
  }
});

test("a report that the server may take later waits, and those behind it are sent", async (t) => {
  for (const status of [408, 425, 500]) {
    let refused;
    const { url } = await serve(t, ({ method, body }) => {
      if (method === "GET") return [200, honest()];
      refused ??= body;
      return body === refused ? [status, {}] : [200, { status: "counted" }];
    });
    const onRefused = () => assert.fail("nothing was refused for good");
    const device = new Device(url, "ads", { ...PROMISE, storage: storage(t).kept, onRefused });
    assert.equal(await device.report(await device.decide(ROWS), 1), "waiting");
    assert.equal(await device.report(await device.decide(ROWS), 1), "counted");
    assert.deepEqual((await device.kept()).waiting, [refused]);
  }
});

test("a bandit that learns no more gets no report, and decisions go on", async (t) => {
  let policy = honest();
  const { seen, url } = await serve(t, ({ method }) => [200, method === "GET" ? policy : { status: "counted" }]);
  const device = new Device(url, "ads", { ...PROMISE, storage: storage(t).kept });
  const decision = await device.decide(ROWS);
  policy = { ...honest(), learning: false };
  assert.equal(await device.report(decision, 1), "closed");
  assert.ok([0, 1].includes((await device.decide(ROWS)).action));
  assert.equal(posts(seen).length, 0);
  assert.equal((await device.kept()).sent, 0);
});

test("no more reports than promised, in any number of tabs at once", async (t) => {
  const { kept } = storage(t);
  const { seen, url } = await serve(t, fair());
  const tabs = Array.from({ length: 6 }, () => new Device(url, "ads", { ...PROMISE, storage: kept }));
  const statuses = await Promise.all(
    tabs.map(async (device) => device.report(await device.decide(ROWS), 1)));
  assert.deepEqual(statuses.filter((each) => each === "spent").length, 4);
  const bodies = new Set(posts(seen).map(({ body }) => body));
  assert.equal(bodies.size, 2);
  assert.equal(await tabs[0].report(await tabs[0].decide(ROWS), 1), "spent");
});

test("where nothing can be written down, nothing is sent", async (t) => {
  const { seen, url } = await serve(t, fair());
  const { kept } = storage(t);
  let full = false;
  const broken = { ...kept, set: (value) => (full ? Promise.reject(new Error("disk full")) : kept.set(value)) };
  const device = new Device(url, "ads", { ...PROMISE, storage: broken });
  const decision = await device.decide(ROWS);
  full = true;
  await assert.rejects(device.report(decision, 1), /disk full/);
  assert.equal(posts(seen).length, 0);
  assert.throws(() => new Device(url, "ads", PROMISE), /nowhere to keep its count/);
});

const seven = (change) => ({ ...honest(), ...change });
const channel = (kind, change) => {
  const policy = honest();
  policy.channels[kind] = { ...policy.channels[kind], ...change };
  return policy;
};
const question = (change) => {
  const policy = honest();
  Object.assign(policy.questions[0], change);
  return policy;
};
const named = (columns) =>
  seven({ features: { columns, actions: [{ name: "a", parts: [1] }] } });
const LIKELY = honest().channels.moment.likely;
const HOSTILE = {
  "more epsilon": seven({ epsilon: 1.001 }),
  "infinite epsilon": seven({ epsilon: "inf" }),
  "no epsilon": seven({ epsilon: null }),
  "more contributions": seven({ contributions: 3 }),
  "fewer contributions, so that each costs more": seven({ contributions: 1 }),
  "theta huge": seven({ theta: [1e9, 0, 0] }),
  "theta words": seven({ theta: ["a", 0, 0] }),
  "theta null": seven({ theta: [null, 0, 0] }),
  "theta empty": seven({ theta: [] }),
  "whitening of another shape": seven({ whitening: [[1]] }),
  "whitening zero": seven({ whitening: [[0, 0, 0], [0, 0, 0], [0, 0, 0]] }),
  "root huge": seven({ root: [[1e300, 0, 0], [0, 0, 0], [0, 0, 0]] }),
  "draws none": seven({ draws: [] }),
  "draws huge": seven({ draws: [[1e9, 0, 0]] }),
  "another rule": seven({ policy: "steal" }),
  "exploring always": seven({ exploring: 1 }),
  "range reversed": seven({ outcome_range: [1, 0] }),
  "range of words": seven({ outcome_range: ["a", "b"] }),
  "range huge": seven({ outcome_range: [0, 1e200] }),
  "norm bound zero": seven({ norm_bound: 0 }),
  "another format": seven({ format: 2 }),
  "no questions": seven({ questions: [] }),
  "no channels": seven({ channels: undefined }),
  "no features": seven({ features: undefined }),
  "a question for the record": question({ kind: "income" }),
  "a clip of zero": question({ clip: 0 }),
  "fractions beyond 1": question({ fraction: 0.9 }),
  "a coin that tells more": channel("moment", { likely: LIKELY + 10 ** 10 }),
  "a coin that always tells": channel("moment", { likely: 2 ** 52 }),
  "a coin that tells by lying": channel("moment", { likely: 1000 }),
  "a coin that is no integer": channel("moment", { likely: LIKELY + 0.5 }),
  "a cap that tells more": channel("moment", { cap: 0.9 }),
  "a tiny cap, whose part of the sphere a long series would miss": channel("moment", { cap: 1 - 1e-7, likely: 2 ** 51 }),
  "a tiny cap for the Gram": { ...honest(2), channels: { ...honest(2).channels, gram: { cap: 1 - 1e-7, likely: 2 ** 51 } } },
  "a cap beyond the sphere": channel("moment", { cap: 1 }),
  "a cap that is no number": channel("gram", { cap: "0" }),
  "a cap at the end of the sphere, which took long to find": channel("moment", { cap: 1 - 1e-9, likely: 1 }),
  "a coin that lies": channel("moment", { likely: 2 ** 52 - LIKELY }),
  "a response that lies": channel("square", { likely: 2 ** 52 - honest().channels.square.likely }),
  "a question of a million characters": question({ name: "m".repeat(10 ** 6) }),
  "a question without a name": question({ name: "" }),
  "two questions of one name": question({ name: honest().questions[1].name }),
  "a question of every object": question({ kind: "constructor" }),
  "a question that is none": seven({ questions: [null] }),
  "rows of another length": seven({ features: { dim: 7 } }),
  "columns that are none": seven({ features: { columns: [null], actions: [{ name: "a", parts: [1, 1, 1] }] } }),
  "a column without a name": named([{ number: [0, 1] }]),
  "a column of nothing": named([{ name: "age" }]),
  "a column without categories": named([{ name: "age", category: [] }, { name: "b", number: [0, 1] }]),
  "a column that is two": named([{ name: "age", number: [0, 1], category: ["a"] }]),
  "two columns of one name": named([{ name: "age", number: [0, 1] }, { name: "age", number: [0, 1] }]),
  "a range of a column reversed": named([{ name: "age", number: [1, 0] }]),
  "no actions": seven({ features: { columns: [{ name: "age", category: ["a", "b"] }], actions: [] } }),
  "actions left out": seven({ features: { columns: [{ name: "age", category: ["a", "b"] }] } }),
  "a response that tells more": channel("square", { likely: 2 ** 52 - 1 }),
  "a mixture beyond its coins": channel("square", { mixture: 2 ** 53 }),
  "a plateau that tells more": channel("square", { mixture: 2 ** 51, plateau: 1, inside: 2 ** 51 }),
  "a plateau that tells by absence": channel("square", { mixture: 2 ** 51, plateau: 2 ** 20, inside: 1 }),
};

for (const [name, policy] of Object.entries(HOSTILE))
  test(`a hostile server is refused before a record is seen: ${name}`, async (t) => {
    const { seen, url } = await serve(t, fair(policy));
    const device = new Device(url, "ads", { ...PROMISE, storage: storage(t).kept });
    await assert.rejects(device.decide(ROWS), /refuses the policy/);
    await assert.rejects(device.report({ id: "x", row: ROWS[0] }, 1), /refuses the policy/);
    assert.equal(posts(seen).length, 0);
  });

test("a report takes as many words on the cap as on the rest, and for every record", () => {
  // A word of 52 bits for each try told by its time what was tried: 45 ms on one side, .01 on the other.
  for (const dim of [1, 2, 3, 4, 7]) {
    const policy = honest(dim);
    const asked = policy.questions.find(({ kind }) => kind === "moment");
    for (let seed = 0; seed < 40; seed++) {
      const counts = new Set();
      for (const coin of [0, 2 ** 52 - 1])
        for (const size of [0, 1e-300, 0.5, 1]) {
          let state = seed * 7919 + 1;
          let words = 0;
          const next = () => {
            words += 1;
            state = (state * 48271) % 2147483647;
            return words === 2 ? coin : state * 2 ** 21; // the second word: on the cap, or on the rest
          };
          law.privatized(policy, asked, Array.from({ length: dim }, () => size / dim), 0.7, next);
          counts.add(words);
        }
      assert.equal(counts.size, 1);
    }
  }
});

test("what JSON cannot say is refused with the same error: holes, symbols, nothing at all", () => {
  const holes = (n) => Object.assign(new Array(n), { 0: 0 });
  const symbol = Symbol("x");
  const odd = [
    undefined, null, symbol, 7, "policy", [], {},
    ...["theta", "whitening", "root", "draws", "outcome_range", "questions"].map((name) => seven({ [name]: holes(3) })),
    seven({ draws: [holes(3)] }),
    seven({ whitening: [holes(3), holes(3), holes(3)] }),
    ...Object.keys(honest()).filter((name) => !["epoch", "version"].includes(name)).flatMap((name) =>
      [symbol, undefined, null, { length: 3 }].map((value) => seven({ [name]: value }))),
    ...Object.keys(honest().questions[0]).map((name) => question({ [name]: symbol })),
    named([{ name: symbol, category: ["a", "b"] }]),
  ];
  for (const policy of odd)
    assert.throws(() => law.check(policy, { ...PROMISE, delta: 1e-6, localEpsilon: 8 }), RangeError);
});

test("a context holds anything: what is no number counts as the middle", () => {
  const features = { columns: [{ name: "age", number: [0, 10] }], actions: [{ name: "a", parts: [1, 1] }] };
  const policy = { ...honest(4), features };
  const middle = JSON.stringify(law.offered(policy, { age: 5 }));
  for (const age of [Symbol("x"), undefined, NaN, "old", {}, Object.create(null)])
    assert.equal(JSON.stringify(law.offered(policy, { age })), middle);
  assert.doesNotThrow(() => law.offered(honest(), [[Symbol("x"), 1, 2]]));
});

test("a device needs the person's epsilon: no server sets it", async (t) => {
  const { url } = await serve(t, fair());
  for (const epsilon of [undefined, null, NaN, Infinity, 0, -1, "1", {}])
    assert.throws(() => new Device(url, "ads", { epsilon, storage: storage(t).kept }), /epsilon: state a positive/);
  assert.throws(() => new Device(url, "ads"), /epsilon: state a positive/);
});

test("honest policies of every dimension and epsilon pass the same checks", () => {
  const vectors = JSON.parse(readFileSync(new URL("./vectors.json", import.meta.url)));
  for (const policy of vectors.policies.filter(({ batch }) => !batch)) // tests/clients/sizes.node.js: crowds
    law.check(policy, { epsilon: policy.epsilon, contributions: policy.contributions });
});

test("a server that asks for more later is refused, and so is a page that promises more later", async (t) => {
  const { kept } = storage(t);
  let policy = honest();
  const { seen, url } = await serve(t, ({ method }) => [200, method === "GET" ? policy : { status: "counted" }]);
  const device = new Device(url, "ads", { ...PROMISE, storage: kept });
  const decision = await device.decide(ROWS);
  for (const more of [{ epsilon: 2 }, { contributions: 9 }, { norm_bound: 2 }, { outcome_range: [0, 9] }]) {
    policy = { ...honest(), ...more };
    await assert.rejects(device.report(decision, 1), RangeError);
  }
  policy = honest();
  for (const more of [{ epsilon: 2 }, { contributions: 3, epsilon: 1 }, { epsilon: 1, contributions: 1 }]) {
    const greedy = new Device(url, "ads", { ...PROMISE, ...more, total: 99, storage: kept });
    await assert.rejects(greedy.policy(), /at first|more each|promised|cost more|contributions/);
  }
  assert.equal(posts(seen).length, 0);
  assert.equal(await device.report(decision, 1), "counted");
});

/** A shuffled policy whose batches count on these fractions. */
function crowded(honestFraction, minimumFraction, size = 20000) {
  const vectors = JSON.parse(readFileSync(new URL("./vectors.json", import.meta.url)));
  const found = vectors.policies.find((each) => each.batch && each.theta.length === 3);
  // A report costs 1, as it may alone: any of these batches hides that.
  const { cap, likely } = law.thresholds(10, 1);
  const batch = {
    ...found.batch, size,
    minimum: Math.ceil(minimumFraction * size), honest: Math.max(1, Math.floor(honestFraction * size)),
    minimum_fraction: minimumFraction, honest_fraction: honestFraction,
  };
  return { ...found, batch, channels: { joint: { cap, likely } }, epsilon: 1, contributions: 1, epoch: "e", version: 1 };
}

for (const first of [20000, 1, 2, 3])
  test(`a server that counts on a more honest crowd later is refused: a first batch of ${first}`, async (t) => {
    const { kept } = storage(t);
    let policy = crowded(0.5, 0.8, first);
    const { url } = await serve(t, () => [200, policy]);
    const options = { epsilon: 1, delta: 1e-6, relay: url, storage: kept };
    const device = new Device(url, "ads", options);
    await device.policy();
    for (const [honest, minimum] of [[1, 1], [0.5001, 0.8], [0.5, 0.7999]]) {
      policy = crowded(honest, minimum);
      for (const each of [device, new Device(url, "ads", options)])
        await assert.rejects(each.policy(), /another crowd/);
      await new Device(url, "ads", { ...options, storage: storage(t).kept }).policy(); // as a first one
    }
    for (const each of [crowded(0.45, 0.9), crowded(0.5, 0.8, 10001), crowded(0.5, 0.8, 1), crowded(0.5, 0.8)]) {
      policy = each; // fewer honest ones, other sizes with their rounding, the first
      await device.policy();
    }
  });

test("a policy that does not say its fractions is held to those that are certain", async (t) => {
  let policy = crowded(0.5, 0.8, 1);
  delete policy.batch.honest_fraction;
  delete policy.batch.minimum_fraction;
  const { url } = await serve(t, () => [200, policy]);
  const device = new Device(url, "ads", { epsilon: 1, delta: 1e-6, relay: url, storage: storage(t).kept });
  await device.policy();
  policy = crowded(1, 1);
  await assert.rejects(device.policy(), /another crowd/);
});

test("numbers of a batch that are not those of its fractions are refused", () => {
  const promise = { epsilon: 1, contributions: 1, delta: 1e-6, localEpsilon: 8 };
  law.check(crowded(0.5, 0.8), promise);
  for (const change of [
    { honest: 10001 }, { minimum: 15999 }, { honest_fraction: 0.4 }, { honest_fraction: 0.9 },
    { honest_fraction: 0 }, { minimum_fraction: 0.9 }, { minimum_fraction: 1.1 }, { minimum_fraction: "x" },
  ]) {
    const policy = crowded(0.5, 0.8);
    Object.assign(policy.batch, change);
    assert.throws(() => law.check(policy, promise), RangeError);
  }
});

test("the question is picked by a word of this device, and its law is the policy's", () => {
  const policy = honest();
  const heard = (first) => {
    const next = law.words();
    let words = 0;
    return law.report(policy, [0.1, 0.2, 0.3], 0.5, () => (words++ ? next() : first)).question;
  };
  const names = policy.questions.map(({ name }) => name);
  let start = 0;
  for (const [i, { fraction }] of policy.questions.entries()) {
    assert.equal(heard(Math.floor((start + fraction / 2) * 2 ** 52)), names[i]);
    start += fraction;
  }
});

test("many names of one server share what this device will spend in all", async (t) => {
  const { kept } = storage(t);
  const { url } = await serve(t, fair());
  await new Device(url, "one", { ...PROMISE, storage: kept }).decide(ROWS);
  await assert.rejects(new Device(url, "two", { ...PROMISE, storage: kept }).decide(ROWS), /total/);
  await assert.rejects(new Device(`${url}/x`, "one", { ...PROMISE, storage: kept }).decide(ROWS), /total/);
  await new Device(url, "two", { ...PROMISE, total: 2, storage: kept }).decide(ROWS);
  await assert.rejects(new Device(url, "three", { ...PROMISE, total: 2, storage: kept }).decide(ROWS), /total/);
});

test("every record leads to exactly one report: rewards and features that are no numbers too", async (t) => {
  const { seen, url } = await serve(t, fair());
  const rewards = [NaN, Infinity, -1e308, undefined, null, "x", true, {}, 1n];
  const rows = [[NaN, 0, 0], [1e308, -1e308, 0], [5e-324, 0, 0], ["x", null, {}], [1n, 0, 0], [0, 0, 0]];
  const records = [...rewards.map((reward) => [ROWS, reward]), ...rows.map((row) => [[row], 1])];
  for (const [offer, reward] of records) {
    const device = new Device(url, "ads", { ...PROMISE, storage: storage(t).kept });
    assert.equal(await device.report(await device.decide(offer), reward), "counted");
  }
  const sent = posts(seen).map(({ body }) => JSON.parse(body).values);
  assert.equal(sent.length, records.length);
  for (const values of sent) assert.ok(values.every(Number.isInteger));
});

test("randomness comes from crypto alone", async (t) => {
  const { url } = await serve(t, fair());
  t.mock.method(Math, "random", () => assert.fail("Math.random was called"));
  const device = new Device(url, "ads", { ...PROMISE, storage: storage(t).kept });
  assert.equal(await device.report(await device.decide(ROWS), 1), "counted");
  const drawn = t.mock.method(crypto, "getRandomValues");
  await device.report(await device.decide(ROWS), 1);
  assert.ok(drawn.mock.callCount() >= 4);
});

test("a named context becomes the rows of the public policy, whatever is missing", async (t) => {
  const features = {
    columns: [{ name: "age", number: [0, 10] }],
    actions: [{ name: "a", parts: [1, 0] }, { name: "b", parts: [0, 1] }],
  };
  const { url } = await serve(t, fair({ ...honest(4), features }));
  const device = new Device(url, "ads", { ...PROMISE, storage: storage(t).kept });
  const decision = await device.decide({ age: 7.5 }, { actions: ["b"] });
  assert.equal(decision.action, "b");
  assert.deepEqual(decision.row.slice(0, 2), [0, 0]);
  assert.equal(decision.row[3] / decision.row[2], 0.5);
  assert.deepEqual((await device.decide({}, { actions: ["b"] })).row, [0, 0, 1, 0]);
  await assert.rejects(device.decide({ age: 1 }, { actions: ["c"] }), TypeError);
  await device.flush(); // of the first decision: nothing waits
});
