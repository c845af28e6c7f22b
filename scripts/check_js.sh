#!/usr/bin/env bash
# Tests the JavaScript and checks that the committed bundles in widgets/static are what the sources give.
# Node is only needed to change the widgets, so without it there is nothing to check.
set -euo pipefail
cd "$(dirname "$0")/../widgets/js"

if ! command -v node >/dev/null; then
  echo "no node: JavaScript not checked"
  exit 0
fi
node --test
if ! command -v npm >/dev/null; then
  echo "no npm: bundles not checked"
  exit 0
fi
if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
  npm ci --no-audit --no-fund --loglevel=error
  touch node_modules/.package-lock.json
fi
npm run --silent check
