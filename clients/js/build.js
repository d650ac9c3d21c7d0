// Bundles index.js, law.js and sealing.js into one small file: for npm, and for the demo page of the service.
import { writeFileSync } from "node:fs";
import { build } from "esbuild";

export async function bundled() {
  const { outputFiles } = await build({
    entryPoints: [new URL("index.js", import.meta.url).pathname],
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    write: false,
  });
  return outputFiles[0].text;
}

export const COPIES = ["discreet-client.js", "../../src/discreet/service/pages/discreet-client.js"];

if (process.argv[1] === new URL(import.meta.url).pathname)
  for (const copy of COPIES) writeFileSync(new URL(copy, import.meta.url), await bundled());
