"""Solves the program that it reads, or a list of them, with HiGHS, in a process of its own.

The solver holds the interpreter while it works, so that nothing else could end it. Of this project it imports
the reading of files alone: three quarters of its CPU seconds go to Python, NumPy and HiGHS.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from explorer.base.formats import parse_json


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the best values that the solver found, [] for none, and the bound of the objective."""
    import highspy  # a tenth of a second, in this process alone
    import numpy as np

    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    options = {
        "output_flag": False, "threads": 1, "random_seed": 0, "mip_rel_gap": 1e-9, "mip_abs_gap": 1e-12,
        "mip_max_nodes": asked["nodes"], "objective_target": asked["target"] * (1 + 1e-9),
    }  # fmt: skip
    for name, value in options.items():
        solver.setOptionValue(name, value)
    if asked["seconds"]:
        solver.setOptionValue("time_limit", float(asked["seconds"]))
    columns, infinite = len(asked["lower"]), highspy.kHighsInf
    for lower, upper in zip(asked["lower"], asked["upper"], strict=True):
        solver.addVar(lower, upper)
    solver.changeColCost(0, 1.0)
    for column in asked["whole"]:
        solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
    rows = zip(asked["least"], asked["columns"], asked["factors"], strict=True)
    for least, places, factors in rows:
        solver.addRow(
            least, infinite, len(places), np.array(places, dtype=np.int32), np.array(factors, dtype=float)
        )
    places, values = zip(*asked["start"], strict=True) if asked["start"] else ((), ())
    solver.setSolution(len(places), np.array(places, dtype=np.int32), np.array(values, dtype=float))
    solver.run()
    info = solver.getInfo()
    found = list(solver.getSolution().col_value)
    known = info.primal_solution_status == 2 and len(found) == columns
    return {
        "values": found if known else [],
        "bound": float(info.mip_dual_bound if asked["whole"] else info.objective_function_value),
        "nodes": int(info.mip_node_count),
    }


def answers(asked: dict[str, Any] | list[dict[str, Any]]) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the answer to a program, or those to several."""
    return [answer(one) for one in asked] if isinstance(asked, list) else answer(asked)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answers(parse_json(sys.stdin.read(), ours=False, number=False))))
