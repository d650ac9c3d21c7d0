// Makes sealed.json anew: `node test/sealed.js`. Python opens what it holds (tests/clients/test_sealed.py).
import { writeFileSync } from "node:fs";
import { seal, toHex } from "../sealing.js";

const CURVE = { name: "ECDH", namedCurve: "P-256" };

/** A key pair from its JSON Web Key. */
export async function pairOf({ kty, crv, x, y, d }) {
  const secret = { kty, crv, x, y, d, ext: true, key_ops: ["deriveBits"] };
  const open = { kty, crv, x, y, ext: true, key_ops: [] };
  return {
    privateKey: await crypto.subtle.importKey("jwk", secret, CURVE, true, ["deriveBits"]),
    publicKey: await crypto.subtle.importKey("jwk", open, CURVE, true, []),
  };
}

async function vector(bandit, text, size) {
  const [server, device] = await Promise.all(
    [0, 1].map(() => crypto.subtle.generateKey(CURVE, true, ["deriveBits"])),
  );
  const key = toHex(new Uint8Array(await crypto.subtle.exportKey("raw", server.publicKey)));
  const digest = toHex(crypto.getRandomValues(new Uint8Array(32)));
  const terms = { bandit, policy: "0123456789abcdef-3", digest, key, size, batch: 100, minimum: 50, epsilon: 1 };
  return {
    terms,
    text,
    server: (await crypto.subtle.exportKey("jwk", server.privateKey)).d,
    device: await crypto.subtle.exportKey("jwk", device.privateKey),
    sealed: toHex(await seal(terms, text, device)),
  };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const made = [
    await vector("ads", '{"id":"00112233445566778899aabbccddeeff","values":[1,-2]}', 64),
    await vector("ads", "", 64),
    await vector("a.name_with-signs", "x".repeat(256), 256),
    await vector("long", '{"values":[' + "-1048577,".repeat(200) + "0]}", 1856),
  ];
  writeFileSync(new URL("sealed.json", import.meta.url), JSON.stringify(made, null, 1) + "\n");
}
