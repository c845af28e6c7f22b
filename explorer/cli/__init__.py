"""Command line: `explorer`, `strategy-explorer`, `python -m explorer`. One file per group of commands.

With `--json` standard output holds one JSON object; progress and messages go to standard error. Exit
status: 0 done, 2 bad input, 3 infeasible, 4 the run failed, 5 no verdict, 130 interrupted.
"""

from explorer.cli.main import main

__all__ = ["main"]
