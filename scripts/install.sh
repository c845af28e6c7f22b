#!/usr/bin/env bash
# Makes the virtual environment if there is none and installs the project into it, editable, with pinned versions.
# usage: scripts/install.sh PYTHON VENV EXTRAS      for example: scripts/install.sh python3 .venv dev
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 venv=$2 extras=$3

fail() {
  echo "error: $*" >&2
  exit 1
}

make_venv() {
  command -v "$python" >/dev/null || fail "there is no '$python'; install Python 3.11 or newer, or name one: make PYTHON=python3.12"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "'$python' is $("$python" --version 2>&1); Python 3.11 or newer is needed: make PYTHON=python3.11"
  echo "making $venv with $("$python" --version)"
  if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$venv"
  elif "$python" -c 'import pip' 2>/dev/null; then
    # Debian ships ensurepip apart, as python3-venv. Its pip can fill a venv without touching the system's packages.
    "$python" -m venv --without-pip "$venv"
    "$python" -m pip --python "$venv/bin/python" install --quiet pip
  else
    fail "'$python' has neither ensurepip nor pip; on Debian: apt install python3-venv"
  fi
}

"$venv/bin/python" -c 'import pip' 2>/dev/null || make_venv

echo "installing into $venv (minutes the first time)"
quiet=--quiet
[ ! -t 1 ] || quiet= # someone is watching: show what arrives
# Compiling afterwards, on all cores, takes half as long as letting pip do it.
"$venv/bin/python" -m pip install --disable-pip-version-check $quiet --no-compile \
  -c constraints.txt -e ".[$extras]"
packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$venv/bin/python" -m compileall -q -j 0 "$packages" >/dev/null 2>&1 || true # some files are for other versions

# Defaults of this environment's JupyterLab: no news pop-up, no look-up of new versions. A user's own settings win.
settings="$venv/share/jupyter/lab/settings"
mkdir -p "$settings"
cp scripts/jupyterlab_overrides.json "$settings/overrides.json"
