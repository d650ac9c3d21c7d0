// The dashboard in a real Chromium: pages, forms, keyboard, no script, and axe-core.
// Run by tests/service/test_dashboard_browser.py, which gives FULL, EMPTY (addresses) and KEY.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { launch } from "./chromium.js";

const { FULL, EMPTY, KEY } = process.env;
const AXE = createRequire(import.meta.url)("axe-core").source;
let browser;

before(async () => (browser = await launch()));
after(async () => browser.close());

// A page that has logged in and notes everything that goes wrong in it.
async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  page.on("dialog", (dialog) => wrong.push(`dialog ${dialog.message()}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(`${url}/`)) wrong.push(`asked ${request.url()}`);
  });
  await page.goto(`${url}/login`);
  await page.fill("#key", KEY);
  await page.keyboard.press("Enter");
  await page.waitForURL(`${url}/`);
  return { context, page, wrong };
}

async function violations(page) {
  await page.evaluate(AXE); // by the debugger: the page's own policy allows no such script
  const found = await page.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
  return found.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(" ")}`);
}

for (const [width, colorScheme] of [[1400, "light"], [400, "dark"]]) {
  test(`every page at ${width} px, ${colorScheme}: accessible, fits, asks nobody else`, async () => {
    for (const [url, paths] of [
      [FULL, ["/", "/bandits/welcome", "/bandits/odd", "/bandits/devices", "/keys", "/log", "/bandits/none"]],
      [EMPTY, ["/", "/log"]],
    ]) {
      const { context, page, wrong } = await open(url, { viewport: { width, height: 900 }, colorScheme });
      for (const path of paths) {
        const reply = await page.goto(url + path);
        assert.equal(reply.status(), path.endsWith("/none") ? 404 : 200, path);
        assert.deepEqual(await violations(page), [], path);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${path} is ${over} px too wide`);
      }
      await page.click("text=Log out");
      assert.deepEqual(await violations(page), [], "/login");
      assert.deepEqual(wrong.filter((text) => !text.includes("404")), []);
      await context.close();
    }
  });
}

test("overview: progress, promises, populations, an alarm, and a filter", async () => {
  const { context, page } = await open(FULL);
  const row = page.locator("#bandits tr", { hasText: "welcome" });
  assert.match(await row.innerText(), /learning[\s\S]*ε\s=\s1 for each round[\s\S]*customers/);
  assert.match(await page.locator("[role=alert]").innerText(), /Learning has stopped\s+broken/);
  assert.match(await page.locator("#population-customers").innerText(), /of the budget is spent[\s\S]*welcome/);
  await page.fill("#filter", "camp");
  assert.equal(await page.locator("#bandits tbody tr:visible").count(), 12);
  await page.fill("#filter", "nothing like this");
  assert.ok(await page.locator("#none-found").isVisible());
  await context.close();
});

test("bandit: a chart of releases, coefficients in names, a context that is tried", async () => {
  const { context, page, wrong } = await open(FULL);
  await page.goto(`${FULL}/bandits/welcome`);
  assert.ok(await page.locator("#value canvas").isVisible());
  assert.ok(await page.locator("#value .spark").isVisible());
  assert.ok(await page.locator("#value .numbers table").isHidden());
  assert.match(await page.locator("#learnt").innerText(), /email[\s\S]*age[\s\S]*plan=gold/);
  await page.fill("#column-age", "25");
  await page.selectOption("#column-plan", { label: "gold" });
  await page.click("text=Show probabilities");
  await page.locator("#tried tbody tr").first().waitFor();
  const shown = await page.locator("#tried tbody tr").allInnerTexts();
  assert.equal(shown.length, 3);
  const total = shown.map((text) => Number(/([\d.]+)%/.exec(text)[1])).reduce((a, b) => a + b);
  assert.ok(Math.abs(total - 100) < 2);
  assert.equal(await page.inputValue("#column-age"), "25");
  assert.deepEqual(wrong, []);
  await context.close();
});

test("without JavaScript every number is there", async () => {
  const { context, page } = await open(FULL, { javaScriptEnabled: false });
  await page.goto(`${FULL}/bandits/welcome`);
  assert.ok(await page.locator("#value .numbers table").isVisible());
  assert.match(await page.locator("#value").innerText(), /measured in 5\.0%/);
  assert.equal(await page.locator("canvas").count(), 0);
  await page.click("text=Show probabilities");
  await page.locator("#tried").waitFor();
  await context.close();
});

test("by keyboard: skip link, pages, a key created and revoked", async () => {
  const { context, page } = await open(FULL);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  const tabTo = async (selector) => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press("Tab");
      if (await page.evaluate((wanted) => document.activeElement.matches(wanted), selector)) return;
    }
    assert.fail(`no Tab leads to ${selector}`);
  };
  await page.goto(`${FULL}/keys`);
  await tabTo("#name");
  await page.keyboard.type("by-keyboard");
  await tabTo("[name=scope-read]");
  await page.keyboard.press("Space");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#secret");
  assert.match(await page.locator("#secret").innerText(), /^dk_/);
  const summary = 'details.confirm:has([aria-label*="by-keyboard"]) summary';
  await tabTo(summary);
  await page.keyboard.press("Enter");
  await tabTo('button.danger[aria-label*="by-keyboard"]');
  await page.keyboard.press("Enter");
  await page.waitForURL(`${FULL}/keys`);
  await page.waitForSelector("text=1 revoked");
  assert.equal(await page.locator(summary).count(), 0);
  await context.close();
});

test("a bandit is retired only by its name", async () => {
  const { context, page } = await open(FULL);
  await page.goto(`${FULL}/bandits/campaign-11`);
  await page.click("text=Retire this bandit");
  await page.fill("#confirm", "campaign-1");
  await page.click("text=Retire for good");
  await page.locator("main", { hasText: "Nothing was changed" }).waitFor();
  await page.goto(`${FULL}/bandits/campaign-11`);
  await page.click("text=Retire this bandit");
  await page.fill("#confirm", "campaign-11");
  await page.click("text=Retire for good");
  await page.locator("h1 .chip", { hasText: "retired" }).waitFor();
  await context.close();
});

test("a form of another site does nothing: the cookie does not travel", async () => {
  const { context, page } = await open(FULL);
  const form = `<form method="post" action="${FULL}/bandits/welcome/retire"><input name="name" value="welcome"><button>Win</button></form>`;
  const other = createServer((_, reply) => reply.setHeader("Content-Type", "text/html").end(form));
  await new Promise((ready) => other.listen(0, "localhost", ready));
  try {
    await page.goto(`http://localhost:${other.address().port}/`);
    const sent = page.waitForRequest((request) => request.method() === "POST");
    await page.click("text=Win");
    assert.equal((await (await sent).allHeaders()).cookie, undefined);
    await page.waitForURL(`${FULL}/login`);
    await page.goto(`${FULL}/bandits/welcome`);
    assert.equal(await page.locator("h1 .chip").innerText(), "learning");
  } finally {
    other.close();
    other.closeAllConnections();
  }
  await context.close();
});
