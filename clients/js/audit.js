// Draws reports of two records, for `discreet audit --reports FILE`:
//
//   node audit.js < asked.json > reports.json     {"policy", "records": [two], "runs", "broken"?}
//
// `broken` shows that the audit would notice: "half" draws words from half of their range.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { check, report, words } from "./law.js";

export function drawn({ policy, records, runs, broken }) {
  if (!broken) check(policy, policy);
  const fair = words();
  const next = broken === "half" ? () => Math.floor(fair() / 2) : fair;
  const reports = records.map(({ row, reward }) =>
    Array.from({ length: runs }, () => report(policy, row, reward, next)));
  return { policy, records, reports };
}

if (import.meta.url === pathToFileURL(process.argv[1]).href)
  process.stdout.write(JSON.stringify(drawn(JSON.parse(readFileSync(0, "utf8")))));
