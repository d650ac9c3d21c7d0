// The examples of clients/js/README.md, as they stand there, against a real server.
//
// Only what a reader must fill in is filled in: the address, the key, the storage of a device that
// has no IndexedDB, and what happened on the page.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as everything from "../../clients/js/discreet-client.js";
import { fileStorage } from "../../clients/js/node.js";

const { URL: url, KEY: key, FOLDER: folder } = process.env;
const { Client, Device } = everything;
const text = readFileSync(new URL("../../clients/js/README.md", import.meta.url), "utf8");
const sections = Object.fromEntries(
  text.split(/^## /m).map((part) => [
    part.split(/[:\n]/)[0],
    [...part.matchAll(/```js\n(.*?)```/gs)].map((block) => block[1]).join("\n"),
  ]),
);
const DEFINITION = {
  context: { age: { number: [18, 90] }, plan: { category: ["basic", "gold"] } },
  actions: ["email", "call"],
};
const AsyncFunction = (async () => {}).constructor;

async function call(method, path, body) {
  const headers = { Authorization: `Bearer ${key}` };
  const reply = await fetch(`${url}${path}`, { method, headers, body: JSON.stringify(body) });
  assert.ok(reply.ok, await reply.clone().text());
  return reply.json();
}

function run(code, given) {
  assert.ok(code.includes("https://decisions.example"), "the README names another address");
  const here = code.replaceAll("https://decisions.example", url);
  return new AsyncFunction(...Object.keys(given), here)(...Object.values(given));
}

test("what it imports is there", () => {
  const names = text.match(/import \{ (.*) \} from "discreet-client"/)[1].split(", ");
  for (const name of names) assert.equal(typeof everything[name], "function", name);
});

test("joint trust", async () => {
  await call("PUT", "/v1/bandits/welcome", { ...DEFINITION, privacy: { epsilon: 1 } });
  const closing = [];
  const addEventListener = (event, listener) => closing.push([event, listener]);
  const code = `${sections["Joint trust"]}\nreturn { action, decision };`;
  const { action, decision } = await run(code, { Client, key, addEventListener, bought: true });
  assert.ok(DEFINITION.actions.includes(action));
  assert.equal(await new Client(url).learn("welcome", decision, 1), "duplicate"); // it has counted
  const [[event, listener]] = closing;
  assert.equal(event, "pagehide");
  assert.equal(await listener(), "duplicate");
});

test("local trust", async () => {
  const privacy = { epsilon: 1, trust: "local" };
  await call("PUT", "/v1/bandits/private", { ...DEFINITION, privacy });
  const storage = fileStorage(join(folder, "readme.json"));
  class Stored extends Device {
    constructor(address, bandit, options) {
      super(address, bandit, { ...options, storage });
    }
  }
  await run(sections["Local trust"], { Device: Stored, clicked: true });
  assert.deepEqual((await call("GET", "/v1/bandits/private")).reports, { taken: 1, refused: 0 });
});
