#!/usr/bin/env bash
# Starts JupyterLab on your own copy of notebooks/explore.ipynb and prints its address.
# usage: scripts/explore.sh VENV [option of jupyter lab...]
#
# JupyterLab saves what it has run by itself, so it is given copies in notebooks/mine, which git ignores. A copy
# that is there already is kept as it is: it is yours.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
shift

mkdir -p notebooks/mine
for notebook in notebooks/*.ipynb; do
  copy=notebooks/mine/${notebook##*/}
  if [ ! -e "$copy" ]; then
    cp "$notebook" "$copy"
  elif [ "$notebook" -nt "$copy" ]; then
    echo "$notebook is newer than your $copy; delete or rename yours to start from the new one"
  fi
done

options=(
  --ip=127.0.0.1
  --ServerApp.root_dir="$PWD"
  --LabApp.default_url=/lab/tree/notebooks/mine/explore.ipynb
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
