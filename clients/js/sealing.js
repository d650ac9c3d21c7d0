// Sealed reports, as src/discreet/service/sealing.py opens them: HPKE (RFC 9180) in its base mode,
// DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, with what every browser has.

const CURVE = { name: "ECDH", namedCurve: "P-256" };
const utf8 = (text) => new TextEncoder().encode(text);
const none = new Uint8Array();
const KEM = [...utf8("KEM"), 0, 0x10];
const SUITE = [...utf8("HPKE"), 0, 0x10, 0, 1, 0, 1];

function joined(...parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

export const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
export const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
export const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));

/** SHA-256 of a text, in hexadecimal. */
export const digest = async (text) => toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", utf8(text))));

async function hmac(key, content) {
  // No key is a key of zeros (RFC 2104), which importKey takes everywhere.
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const raw = key.length ? key : new Uint8Array(32);
  const imported = await crypto.subtle.importKey("raw", raw, algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, content));
}

// LabeledExtract and LabeledExpand (section 4); one block of HMAC is as much as is asked for.
const extract = (suite, salt, label, ikm) => hmac(salt, joined(utf8("HPKE-v1"), suite, utf8(label), ikm));
const expand = async (suite, secret, label, info, length) =>
  (await hmac(secret, joined([0, length], utf8("HPKE-v1"), suite, utf8(label), info, [1]))).slice(0, length);

/** What only the holder of the terms' key can read: `text`, padded with spaces to the terms' size. */
export async function seal(terms, text, ephemeral) {
  const plain = utf8(text);
  if (plain.length > terms.size) throw new RangeError("the report is longer than the terms allow");
  const pair = ephemeral ?? (await crypto.subtle.generateKey(CURVE, true, ["deriveBits"]));
  const key = fromHex(terms.key);
  const theirs = await crypto.subtle.importKey("raw", key, CURVE, false, []);
  const dh = new Uint8Array(await crypto.subtle.deriveBits({ name: "ECDH", public: theirs }, pair.privateKey, 256));
  const point = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  const shared = await expand(KEM, await extract(KEM, none, "eae_prk", dh), "shared_secret", joined(point, key), 32);
  const info = utf8(`discreet report\n${terms.bandit}\n${terms.policy}\n${terms.digest}`);
  const context = joined(
    [0],
    await extract(SUITE, none, "psk_id_hash", none),
    await extract(SUITE, none, "info_hash", info),
  );
  const secret = await extract(SUITE, shared, "secret", none);
  const raw = await expand(SUITE, secret, "key", context, 16);
  const iv = await expand(SUITE, secret, "base_nonce", context, 12);
  const aes = await crypto.subtle.importKey("raw", raw, "AES-GCM", false, ["encrypt"]);
  const padded = new Uint8Array(terms.size).fill(32);
  padded.set(plain);
  return joined(point, new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv }, aes, padded)));
}
