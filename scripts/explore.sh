#!/usr/bin/env bash
# Starts JupyterLab on notebooks/explore.ipynb and prints its address.
# usage: scripts/explore.sh VENV [option of jupyter lab...]
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
shift

options=(
  --ip=127.0.0.1
  --ServerApp.root_dir="$PWD"
  --LabApp.default_url=/lab/tree/notebooks/explore.ipynb
  --LabApp.news_url=
  --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate
  --LabApp.extension_manager=readonly
  --log-level=WARN # the address is printed all the same
)
[ "$(id -u)" -ne 0 ] || options+=(--allow-root)
[ "$(uname)" = Darwin ] || [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || options+=(--no-browser)

echo "starting JupyterLab; open the address it prints; Ctrl+C twice ends it"
export PATH="$PWD/$venv/bin:$PATH"
exec jupyter lab "${options[@]}" "$@"
