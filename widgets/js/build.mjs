// Bundles every widget (a folder of src with an index.js) into ../static, minified: the page has two seconds to start each,
// on whatever machine it is. `node build.mjs board tiles` builds only those named, `--readable` leaves names and lines as they
// are, to debug. `node build.mjs --check` builds nothing and fails if the committed files differ from what the sources give.
import { build } from "esbuild";
import { existsSync, readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const STATIC = path.join(HERE, "..", "static");
const named = process.argv.slice(2).filter((word) => !word.startsWith("--"));
const WIDGETS = readdirSync(path.join(HERE, "src"))
  .filter((name) => existsSync(path.join(HERE, "src", name, "index.js")))
  .filter((name) => !named.length || named.includes(name));
const check = process.argv.includes("--check");

const { outputFiles: files = [] } = await build({
  absWorkingDir: HERE,
  entryPoints: WIDGETS.flatMap((name) => [
    { in: `src/${name}/index.js`, out: name },
    { in: `src/${name}/${name}.css`, out: name },
  ]),
  bundle: true,
  minify: !process.argv.includes("--readable"),
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  outdir: STATIC,
  write: !check,
});

if (check) {
  const stale = [];
  for (const file of files) {
    const committed = await readFile(file.path, "utf8").catch(() => null);
    if (committed !== file.text) stale.push(path.basename(file.path));
  }
  if (stale.length) {
    console.error(`stale: ${stale.join(", ")}; run "npm run build" in widgets/js`);
    process.exit(1);
  }
  console.log(`${files.length} files in widgets/static are up to date`);
}
