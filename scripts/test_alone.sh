#!/usr/bin/env bash
# Runs tests in a clone of the last commit that stands alone in an empty folder: no reference data beside it.
# usage: scripts/test_alone.sh VENV [PYTEST ARGUMENTS]      without arguments: the tests that read such data
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(cd "$1" && pwd)/bin/python
shift
[ $# -gt 0 ] || set -- -m reference
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git clone --quiet --no-hardlinks . "$folder/clone"
cd "$folder/clone"
# An editable install leads to the checkout that it was made from; what stands on PYTHONPATH comes before it.
PYTHONPATH=$PWD EXPLORER_REFERENCE= "$python" -m pytest -q -p no:cacheprovider "$@"
