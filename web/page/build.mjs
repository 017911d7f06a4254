// Builds the page from src into dist, or into the directory that is named: `node build.mjs [DIRECTORY]`.
// dist is part of the repository, so that who builds the programs needs no Node; a test builds it anew and compares.

import { copyFile, mkdir, readFile, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const to = process.argv[2] ?? `${here}dist`;

// Its licence wants to go with each copy.
const licence = await readFile(`${here}node_modules/uplot/LICENSE`, "utf8");

await rm(to, { recursive: true, force: true });
await mkdir(to, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.ts" },
  outdir: to,
  bundle: true,
  format: "iife",
  target: ["chrome115", "firefox115", "safari16.4"],
  minify: true,
  charset: "utf8",
  banner: { js: `/* With uPlot (the rest is Tabane's):\n\n${licence.trim()}\n*/` },
  legalComments: "inline",
  logLevel: "warning",
});
for (const file of ["index.html", "icon.svg"]) await copyFile(`${here}src/${file}`, `${to}/${file}`);
