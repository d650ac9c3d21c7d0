// Compiled by tsc, never run: the types say what the functions do.
import { Client, Device, ServiceError, type Decided, type DeviceDecision, type Status } from "discreet-client";
import { fileStorage } from "discreet-client/node.js";

const client = new Client("https://decisions.example", "dk_key");
const decided: Decided = await client.decide("welcome", { age: 40 }, { person: "p1" });
const told: Status | "sent" = await client.learn("welcome", decided, 1);
const device = new Device("https://decisions.example", "ads", {
  epsilon: 1, contributions: 1, total: 2, storage: fileStorage("device.json"),
  onRefused: (error: ServiceError, id: string) => console.log(error.isFinal, id),
});
const decision: DeviceDecision = await device.decide({ age: 40 });
const status: Status | "waiting" | "refused" | "spent" = await device.report(decision, 0);
console.log(told, status, (await device.kept()).sent, ServiceError.name);
// @ts-expect-error a device needs an epsilon
new Device("https://decisions.example", "ads", {});
// @ts-expect-error there is no such status
const wrong: Status = "maybe";
