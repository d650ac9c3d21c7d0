// clients/js on an origin of its own, and a real Chromium that can open it; both end with the tests.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after } from "node:test";
import { launch } from "../browser/chromium.js";

const CLIENT = new globalThis.URL("../../clients/js/", import.meta.url);
const files = createServer((request, response) => {
  const path = request.url.slice(1);
  const kind = path.endsWith("json") ? "application/json" : "text/javascript";
  response.writeHead(200, { "Content-Type": path ? kind : "text/html" });
  response.end(path ? readFileSync(new globalThis.URL(path, CLIENT)) : "<!doctype html><title>page</title>");
});
await new Promise((done) => files.listen(0, "127.0.0.1", done));
export const origin = `http://127.0.0.1:${files.address().port}/`;
export const browser = await launch();
after(async () => {
  await browser.close();
  files.close();
});
