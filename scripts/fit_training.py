"""Fit the few numbers of hardware under load and of software to training steps: a stage of `fit_costs.py`.

    python scripts/fit_training.py [--only "*issue_s"] [--dry]

Rows of all sources take part together (`explorer.score.fit_rows`), n of a source weighing as the square root
of n. Knobs start at their priors, a fit looks away from where a descent ended (`explorer.score.knob_fit`),
and what is found is written into the profiles: only digits and `fitted_on` change. `--only` moves some knobs
and leaves the others where profiles have them; the log of such a fit is printed, not kept.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from explorer.base.errors import InputError
from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.score.fit_rows import groups, refit, rows_of_sets
from explorer.score.knob_fit import rounded
from explorer.score.knobs import Knob, knobs_of
from explorer.score.profile_numbers import Place, places_of, with_numbers
from explorer.score.reading import use_reference
from explorer.score.rows import SETS, published
from explorer.score.running import paths_of

ROUNDS = 8
"""Most steps of a descent."""
ONWARDS = 4
"""The same of one that goes on from where profiles are."""
MOST_ROWS = 40
"""Most rows of a set that take part."""
MEMORY_KNOBS = ("reserved_bytes", "cached_fraction")
"""Numbers of which seconds say nothing."""

Say = Callable[[str], None]


def training(
    say: Say,
    processes: int,
    *,
    dry: bool,
    only: Sequence[str] = ("*",),
    sets: Sequence[str] = (),
    most: int = MOST_ROWS,
    onwards: bool = False,
) -> None:
    """Fit the knobs of training steps, group by group, and write them.

    Args:
        say: takes lines of the log.
        processes: most processes at a time.
        dry: write no profile.
        only: shell patterns of the keys of knobs that move; all others stay where the profiles have them.
        sets: sets whose rows take part; () for all.
        most: most rows of a set.
        onwards: whether fits go on from where profiles are: three steps, without a look elsewhere.
    """
    places = paths_of(sets or published(), {})
    read = {name: SETS.get(name).read(place).rows for name, place in places.items()}
    rows = rows_of_sets(lambda name: read[name], places, most=most)
    used = {row.source for row in rows}
    clusters = {id(row.case.cluster): row.case.cluster for found in read.values() for row in found}
    known = {knob.key: knob for cluster in clusters.values() for knob in knobs_of(cluster)}
    stated: dict[str, tuple[Place, ...]] = {}
    for key, knob in known.items():
        asked = any(fnmatchcase(key, pattern) for pattern in only)
        if asked and used & set(knob.fitted_on.split()) and knob.name not in MEMORY_KNOBS:
            try:
                stated[key] = places_of(key, _kinds())
            except InputError:
                say(f"- `{key}` stays as it is: many numbers at once, or stated by a kind that it extends")
    changes: dict[Place, tuple[str, float, str]] = {}
    every = [place for places in stated.values() for place in places]
    for key in [key for key, places in stated.items() if any(every.count(place) > 1 for place in places)]:
        say(f"- `{key}` stays as it is: its number is stated for several device kinds")
        del stated[key]
    say("\n| number | prior | before | fitted | sources (rows) |\n|---|---:|---:|---:|---|")
    for group, own in groups([known[key] for key in sorted(stated)], rows):
        most_steps = ONWARDS if onwards else ROUNDS
        found = refit(group, own, fixed={}, processes=processes, rounds=most_steps, onwards=onwards)
        if found is None:
            continue
        values = rounded(found.values)
        sources = sorted({row.source for row in own})
        counts = ", ".join(f"{s} {sum(row.source == s for row in own)}" for s in sources)
        for knob in group:
            if knob.key in values:
                new = (knob.name, values[knob.key], " ".join(sources))
                changes |= dict.fromkeys(stated[knob.key], new)
                say(_line(knob, values[knob.key], counts))
        say(f"| *mean error of the rows* | {_mean(found.before)} | | {_mean(found.after)} | |")
    for path, text in with_numbers(changes).items():
        if not dry:
            path.write_text(text, encoding="utf-8")


def _line(knob: Knob, value: float, counts: str) -> str:
    return f"| `{knob.key}` | {knob.prior:.3g} | {knob.value:.3g} | {value:.3g} | {counts} |"


def _mean(errors: Sequence[float] | np.ndarray) -> str:
    return f"{100 * np.abs(np.expm1(errors)).mean():.2f} %"


def _kinds() -> dict[str, set[str]]:
    return {name: {kind.name for kind in load_cluster(name).device_kinds} for name in cluster_names()}


def main() -> None:
    """Fit, and print the log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", default=["*"], help="shell patterns of the keys of knobs that move"
    )
    parser.add_argument("--sets", nargs="+", default=[], help="sets whose rows take part; default: all")
    parser.add_argument("--most", type=int, default=MOST_ROWS, help="most rows of a set")
    parser.add_argument("--onwards", action="store_true", help="go on from the profiles' numbers")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    parser.add_argument("--reference", type=Path, help="folder of the published measurements")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    use_reference(given.reference)
    training(
        lambda line: print(line, flush=True),
        given.processes,
        dry=given.dry,
        only=given.only,
        sets=given.sets,
        most=given.most,
        onwards=given.onwards,
    )


if __name__ == "__main__":
    main()
