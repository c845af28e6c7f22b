#!/usr/bin/env bash
# Makes sure that the browser tests can run: a Chromium on the PATH, else Debian's, else Playwright's own.
# usage: scripts/chromium.sh VENV
set -uo pipefail
cd "$(dirname "$0")/.."
venv=$1

chromium_on_path() {
  command -v chromium || command -v chromium-browser || command -v google-chrome || command -v google-chrome-stable
} >/dev/null

chromium_of_playwright() {
  "$venv/bin/python" -c '
import pathlib, playwright.sync_api
with playwright.sync_api.sync_playwright() as p:
    raise SystemExit(not pathlib.Path(p.chromium.executable_path).exists())'
} 2>/dev/null

# Playwright's driver is a node that needs libatomic1, which a small Debian lacks.
driver_runs() {
  "$venv/bin/playwright" --version
} >/dev/null 2>&1

ready() {
  driver_runs && { chromium_on_path || chromium_of_playwright; }
}

ready && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  packages=(libatomic1)
  chromium_on_path || packages+=(chromium fonts-dejavu-core)
  echo "installing ${packages[*]} with apt"
  log=$(mktemp)
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}"; } \
    >"$log" 2>&1 || tail -n 5 "$log" >&2
  rm -f "$log"
  ready && exit 0
fi
if driver_runs && ! chromium_on_path; then
  echo "installing Playwright's chromium"
  "$venv/bin/playwright" install chromium
  ready && exit 0
fi

driver_runs || echo "error: Playwright does not start; on Debian: apt install libatomic1" >&2
echo "error: no usable Chromium; the browser tests will fail. On Debian: apt install chromium" >&2
exit 1
