// A server that a test controls: what it answers, and every byte that came.
import { createServer } from "node:http";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileStorage } from "../node.js";

const vectors = JSON.parse(readFileSync(new URL("./vectors.json", import.meta.url)));

/** A policy of epsilon 1, two contributions, in `dim` columns. */
export function honest(dim = 3) {
  const found = vectors.policies.find((each) => each.theta.length === dim && each.epsilon === 1);
  return { ...structuredClone(found), epoch: "e", version: 1 };
}

export async function serve(test, answer) {
  const seen = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (piece) => (body += piece));
    request.on("end", async () => {
      const { method, url, headers } = request;
      seen.push({ method, url, headers, body });
      const reply = await answer({ method, url, body, number: seen.length });
      if (reply === undefined) return response.destroy();
      const [status, content] = reply;
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(content));
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  test.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { seen, url: `http://127.0.0.1:${server.address().port}` };
}

export function storage(test) {
  const folder = mkdtempSync(join(tmpdir(), "discreet-"));
  test.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "device.json");
  return { path, kept: fileStorage(path) };
}
