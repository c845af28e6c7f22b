"""Fit the knobs of bundled profiles again, to the part of published rows that their sources state.

    python scripts/fit_costs.py vtrain_single vtrain_multi --scatter vtrain_multi=0.02

Sets are of one source; its knobs are the numbers whose `Source` names it in `fitted_on`. Every third row of
each set is fitted (`--every`), the others are left out and judged. Printed are the numbers as a profile says
them, beside what was believed before and what the profile says now, and the mean errors.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from explorer.base.errors import InputError
from explorer.calibrate.posterior import Array
from explorer.score.knob_fit import SCATTER, fit, rounded
from explorer.score.knobs import Knob, knobs_of
from explorer.score.reading import use_reference
from explorer.score.rows import SETS
from explorer.score.running import paths_of
from explorer.score.trials import TrialPart, Trials

PIECES = 8
"""Pieces of work of one set."""


def knobs_and_rows(paths: Mapping[str, Path]) -> tuple[list[Knob], dict[str, int]]:
    """Knobs that were fitted on the source of some sets, and how many rows each set has.

    Raises:
        InputError: sets of several sources, or without knobs.
    """
    sources = {SETS.get(name).facts["source"] for name in paths}
    if len(sources) != 1:
        raise InputError(
            "sets of several sources", key="sets", found=", ".join(sources), allowed="one source"
        )
    knobs: dict[str, Knob] = {}
    counts = {}
    for name, path in paths.items():
        rows = SETS.get(name).function(path).rows
        counts[name] = len(rows)
        for cluster in {id(row.case.cluster): row.case.cluster for row in rows}.values():
            knobs |= {knob.key: knob for knob in knobs_of(cluster) if knob.fitted_on in sources}
    if not knobs:
        raise InputError(
            "no number of their clusters was fitted on these sets", key="sets", found=", ".join(paths),
            allowed="sets whose profiles have sources with `fitted_on`",
        )  # fmt: skip
    return list(knobs.values()), counts


def parts_of(paths: Mapping[str, Path], counts: Mapping[str, int], chosen: slice) -> list[TrialPart]:
    """Rows of sets in pieces of work, of each set in the order of the file."""
    found = []
    for name, path in paths.items():
        rows = range(counts[name])[chosen]
        found += [
            TrialPart(name, str(path), tuple(map(int, p))) for p in np.array_split(rows, PIECES) if len(p)
        ]
    return found


def mean_pct(errors: Array) -> float:
    """Mean absolute error in per cent."""
    return float(100 * np.abs(np.expm1(errors)).mean())


def by_set(parts: Sequence[TrialPart], errors: Array) -> dict[str, Array]:
    """Errors of the rows of each set."""
    names = np.array([part.name for part in parts for _ in part.rows])
    return {name: errors[names == name] for name in dict.fromkeys(names.tolist())}


def main() -> None:
    """Fit, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="+", help="sets of one source")
    parser.add_argument("--every", type=int, default=3, help="every so manyeth row is fitted, from the first")
    parser.add_argument(
        "--scatter", action="append", default=[], metavar="SET=SD", help="of the rows of a set"
    )
    parser.add_argument("--rounds", type=int, default=6, help="steps of the fit")
    parser.add_argument("--reference", type=Path, help="folder of the published measurements")
    given = parser.parse_args()
    use_reference(given.reference)
    paths = paths_of(given.sets, {})
    scatters = {name: float(sd) for name, sd in (text.split("=") for text in given.scatter)}
    knobs, counts = knobs_and_rows(paths)
    parts = parts_of(paths, counts, slice(0, None, given.every))
    whole = parts_of(paths, counts, slice(None))
    scatter = np.array([scatters.get(part.name, SCATTER) for part in parts for _ in part.rows])
    processes = os.cpu_count() or 1
    with Trials(parts, processes=processes) as trials:
        values = rounded(fit(knobs, trials.errors, scatter=scatter, rounds=given.rounds).values)
    for knob in knobs:
        print(f"{knob.key}: before {knob.prior:.3g}, profile {knob.value:.3g}, fitted {values[knob.key]:.3g}")
    with Trials(whole, processes=processes) as trials:
        now, then = trials.errors([{}, values])
    for name, errors in by_set(whole, now).items():
        for what, found in (("profile", errors), ("fitted", by_set(whole, then)[name])):
            out = np.arange(len(found)) % given.every != 0
            print(f"{name}, {what}: mean error {mean_pct(found[~out]):.2f} % of the rows fitted, "
                  f"{mean_pct(found[out]):.2f} % of those left out")  # fmt: skip


if __name__ == "__main__":
    main()
