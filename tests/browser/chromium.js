// A real Chromium: one that is installed, or the one that npm brought (no root needed).
//
//   import { launch } from "../../tests/browser/chromium.js";
//   const browser = await launch();            // a Browser of playwright-core
//   const page = await (await browser.newContext()).newPage();
//
// DISCREET_CHROMIUM names a program to use. The packed one is unpacked once, below node_modules;
// node chromium.js does that before tests run side by side.
import { execFileSync, spawnSync } from "node:child_process";
import {
  accessSync, constants, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync,
} from "node:fs";
import { createRequire } from "node:module";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync } from "node:zlib";
import { chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];
const HERE = dirname(fileURLToPath(import.meta.url));
const VERSION = createRequire(import.meta.url)("./package.json").devDependencies["@sparticuz/chromium"];
const PACKAGE = join(HERE, "node_modules", "@sparticuz", "chromium");
const CACHE = join(HERE, "node_modules", ".cache", `chromium-${VERSION}`);

function installed() {
  if (process.env.DISCREET_CHROMIUM) return process.env.DISCREET_CHROMIUM;
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    for (const name of NAMES) {
      const path = join(folder, name);
      try {
        accessSync(path, constants.X_OK);
      } catch {
        continue;
      }
      // Some distributions put a program there that only says where to get one.
      if (spawnSync(path, ["--version"], { timeout: 10_000 }).status === 0) return path;
    }
  }
  return null;
}

async function unpacked() {
  if (!existsSync(CACHE)) {
    mkdirSync(dirname(CACHE), { recursive: true });
    const fresh = mkdtempSync(`${CACHE}-`); // renamed when it is whole: two may unpack at once
    const before = process.env.TMPDIR;
    process.env.TMPDIR = fresh; // where the package unpacks to
    try {
      const { default: packed } = await import("@sparticuz/chromium");
      await packed.executablePath();
      const libraries = readFileSync(join(PACKAGE, "bin", "al2023.tar.br"));
      execFileSync("tar", ["-x", "-C", fresh], { input: brotliDecompressSync(libraries) });
    } finally {
      if (before === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = before;
    }
    try {
      renameSync(fresh, CACHE);
    } catch (error) {
      rmSync(fresh, { recursive: true });
      if (!existsSync(CACHE)) throw error;
    }
  }
  return join(CACHE, "chromium");
}

function environment(program) {
  const made = { ...process.env };
  if (!program.startsWith(CACHE)) return made;
  const linked = execFileSync("ldd", [program], { encoding: "utf8" });
  if (linked.includes("not found")) made.LD_LIBRARY_PATH = join(CACHE, "lib");
  if (!existsSync("/etc/fonts")) made.FONTCONFIG_PATH = join(CACHE, "fonts");
  return made;
}

/** The path of a Chromium that runs here. */
export async function executable() {
  return installed() ?? (await unpacked());
}

/** Start it; close it when you are done. */
export async function launch(options = {}) {
  const executablePath = await executable();
  const browser = await chromium.launch({
    executablePath,
    env: environment(executablePath),
    args: ["--no-sandbox", "--no-zygote", "--disable-gpu", "--font-render-hinting=none"],
    ...options,
  });
  // Without a locale of the machine the browser's language is none that scripts understand.
  const newContext = browser.newContext.bind(browser);
  browser.newContext = (more = {}) => newContext({ locale: "en-US", ...more });
  return browser;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const browser = await launch();
  console.log(`Chromium ${browser.version()}`);
  await browser.close();
}
