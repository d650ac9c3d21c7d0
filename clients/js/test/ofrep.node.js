// The published OpenFeature provider, unchanged, against a server; run by tests/service/test_ofrep.py.
import { OpenFeature } from "@openfeature/server-sdk";
import { OFREPProvider } from "@openfeature/ofrep-provider";
import { Client } from "../index.js";

const [url, key] = process.argv.slice(2);
const headers = [["Authorization", `Bearer ${key}`]];
const rewards = new Client(url, key);

class Rewarded extends OFREPProvider {
  // What docs/flags.md shows: a tracked event is the reward of the decision in its details.
  async track(bandit, _context, { value, decision }) {
    this.sent = rewards.learn(bandit, decision, value);
  }
}

const provider = new Rewarded({ baseUrl: url, headers });
await OpenFeature.setProviderAndWait(provider);
const client = OpenFeature.getClient();
const colour = await client.getStringDetails("colour", "none", { targetingKey: "ada", age: 40 });
const token = colour.flagMetadata.decision;
client.track("colour", { targetingKey: "ada" }, { value: 1, decision: token });
await provider.sent;
const missing = await client.getStringDetails("people", "none", {});
const unknown = await client.getStringDetails("nowhere", "none", {});
await OpenFeature.close();
console.log(
  JSON.stringify({
    value: colour.value,
    reason: colour.reason,
    token,
    missing: missing.errorCode,
    unknown: unknown.errorCode,
  }),
);
