#!/usr/bin/env bash
# Prints constraints.txt from an environment that passes the tests: `scripts/freeze.sh .venv > constraints.txt`.
# Make that environment anew, with the oldest Python we support (Debian 12's 3.11.2): some releases want a newer one.
set -euo pipefail
cat <<'HEADER'
# Every version that development and tests use, made by scripts/freeze.sh. Always install with `-c constraints.txt`:
# several dependencies would otherwise replace torch.
HEADER
"$1/bin/python" -m pip freeze --disable-pip-version-check --all --exclude-editable --exclude pip |
  sed -e 's/+cpu$//' -e '/ @ /d'
