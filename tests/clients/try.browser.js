// /try/{bandit} in a real Chromium: every request of the page is read.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { launch } from "../browser/chromium.js";

const { URL: url } = process.env;
const browser = await launch();
after(() => browser.close());

async function visit(context, seen, troubles) {
  const page = await context.newPage();
  context.on("request", (request) => seen.push(request));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) troubles.push(message.text());
  });
  page.on("pageerror", (error) => troubles.push(error.message));
  await page.goto(`${url}/try/private`);
  return page;
}

async function play(page, age, answer) {
  await page.fill("input[name=age]", age);
  await page.selectOption("select[name=plan]", { label: "gold" });
  await page.click("#context button");
  await page.click(`#${answer}`);
  await page.waitForSelector("#result:not([hidden])");
}

test("no feature and no reward is in any request that the page makes", async () => {
  const context = await browser.newContext();
  const [seen, troubles] = [[], []];
  const page = await visit(context, seen, troubles);
  await play(page, "41.7182818", "yes");
  const posts = seen.filter((request) => request.method() === "POST");
  assert.equal(posts.length, 1);
  const body = posts[0].postData();
  assert.deepEqual(Object.keys(JSON.parse(body)).sort(), ["id", "policy", "question", "values"]);
  assert.ok(JSON.parse(body).values.every(Number.isInteger));
  for (const request of seen) {
    assert.ok(request.url().startsWith(`${url}/`), request.url());
    const headers = await request.allHeaders();
    const bytes = [request.url(), JSON.stringify(headers), request.postData() ?? ""].join("\n");
    for (const secret of ["41.7182818", "7182818", "gold", "reward", '"age"'])
      assert.ok(!bytes.includes(secret), `${secret} in ${request.url()}`);
    assert.equal(headers.cookie, undefined);
  }
  const paths = new Set(seen.map((request) => `${request.method()} ${new globalThis.URL(request.url()).pathname}`));
  assert.deepEqual([...paths].sort(), [
    "GET /try/files/discreet-client.js", "GET /try/files/try.css", "GET /try/files/try.js", "GET /try/private",
    "GET /v1/bandits/private/policy", "POST /v1/bandits/private/reports",
  ]);
  // What the page says is what happened.
  const listed = await page.locator("#sent code").allTextContents();
  assert.equal(listed.at(-1), `POST /v1/bandits/private/reports\n${body}`);
  assert.equal(listed.length, seen.filter((request) => request.url().includes("/v1/")).length);
  assert.match(await page.textContent("#drew"), /41\.7182818/);
  assert.match(await page.textContent("#became"), /counted/);
  assert.deepEqual(troubles, []);
  // Again, in the same browser: nothing more leaves, whatever is answered.
  const before = seen.length;
  await page.reload();
  await play(page, "20", "no");
  assert.match(await page.textContent("#drew"), /never sends more/);
  assert.deepEqual(seen.slice(before).filter((request) => request.method() === "POST"), []);
});

test("everybody can use it: axe finds nothing", async () => {
  const axe = readFileSync(new globalThis.URL("../browser/node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
  for (const colorScheme of ["light", "dark"]) {
    const context = await browser.newContext({ colorScheme, viewport: { width: 400, height: 900 } });
    const page = await visit(context, [], []);
    await play(page, "30", "no");
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map(({ target }) => target)]), []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  }
});

test("the page is closed to the outside", async () => {
  const context = await browser.newContext();
  const troubles = [];
  const page = await visit(context, [], troubles);
  const reply = await page.request.get(`${url}/try/private`);
  assert.match(reply.headers()["content-security-policy"], /default-src 'none'.*connect-src 'self'/);
  const blocked = await page.evaluate(() =>
    fetch("http://127.0.0.1:9/").then(() => false, () => true));
  assert.ok(blocked);
  assert.ok(troubles.some((text) => text.includes("Content Security Policy")));
  const other = await context.newPage();
  await other.goto(`${url}/try/no-such-bandit`);
  await other.waitForSelector("#trouble:not([hidden])");
});
