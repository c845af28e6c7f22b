"""Bands between sources: how far an uncalibrated prediction may be off, as left-out sources taught.

Errors of one source are alike (one machine, one version of its software, one way of measuring), so what its
rows say of the next row on the same machine says little about other machines. Rows are therefore exchangeable
within sources, and sources among each other: with K sources left out in turn and n_k rows in the k-th, the
band is the quantile of their |log errors| in which every source weighs 1 / (K + 1), shared by its rows, and
the unseen one 1 / (K + 1) at infinity (Dunn, Wasserman, Ramdas: Distribution-Free Prediction Sets for
Two-Layer Hierarchical Models, JASA 2022). A row of a new source drawn like these is inside with at least the
coverage asked, whatever the distribution of errors.

A prediction for hardware or software unlike anything measured is off by more: errors are divided by a factor
of the distance before the quantile is taken, and the band is multiplied by that of the problem at hand. The
factors, the sources and what they taught are in a bundled file that `scripts/fit_costs.py` writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from explorer.base.errors import InputError
from explorer.base.plain_data import read_document, to_fields, validate
from explorer.base.sample_files import sample_folder
from explorer.calibrate.posterior import COVERAGE
from explorer.cluster import Cluster, DeviceKind
from explorer.framework import Framework
from explorer.framework_files import load_framework

SCHEMA = "explorer.errors/1"
"""Format name and version of the file."""
FILE = "between_sources"
"""Name of the bundled file, in `sample_profiles/errors`."""

HARDWARE = ("steps", "kernels", "generation", "maker", "other")
"""Distances of a device kind from what was measured: training steps of the kind itself; its kernels alone;
another kind of its generation; another generation of its maker; only other makers."""
SOFTWARE = ("same", "other_year", "other")
"""Distances of a framework: its software within a year; the same of another year; none of its name."""
_SAME_YEARS = 1
_KERNELS = ("*", "efficiency", "tiles")  # what a profile measured on its own machine says of its kernels

TIME, MEMORY = "step_time_s", "peak_memory_bytes"
"""Figures whose errors are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """What one source measured, and on what."""

    source: str
    """Owner of the measurements."""
    rows: int
    """Number of training steps."""
    kinds: tuple[str, ...] = ()
    """Device kinds, with those of the same hardware under other names."""
    makers: tuple[str, ...] = ()
    """Makers of these kinds."""
    generations: tuple[str, ...] = ()
    """Generations of these kinds."""
    software: tuple[str, ...] = ()
    """Software for people: `Megatron-LM`; with the year of the version: `Megatron-LM 2022`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBands:
    """What sources that were left out taught."""

    coverage: float
    """Share of rows of a new source that a band holds."""
    hardware: tuple[tuple[str, float], ...]
    """Factor of the logarithmic band by distance of the hardware (`HARDWARE`); 1 for the nearest."""
    software: tuple[tuple[str, float], ...]
    """The same by distance of the software (`SOFTWARE`)."""
    log_errors: tuple[tuple[str, float], ...]
    """By figure, the |log(measured / predicted)| that is not exceeded, at factors of 1."""
    kernels: tuple[str, ...]
    """Device kinds of which single operators were measured."""
    sources: tuple[SourceFacts, ...]
    """Sources that were left out."""

    def __post_init__(self) -> None:
        for key, given, known in (
            ("hardware", self.hardware, HARDWARE),
            ("software", self.software, SOFTWARE),
        ):
            if tuple(name for name, _ in given) != known or [by for _, by in given] != sorted(
                by for _, by in given
            ):
                raise InputError(
                    f"factors of {', '.join(name for name, _ in given)}", key=key, found=str(given),
                    allowed=f"{', '.join(known)}, each at least the one before",
                )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBand:
    """The band of an uncalibrated prediction."""

    log_error: float
    """The |log(measured / predicted)| that is not exceeded in `COVERAGE` of cases."""
    hardware: str
    """Distance of the hardware, one of `HARDWARE`."""
    software: str
    """Distance of the software, one of `SOFTWARE`."""

    @property
    def relative(self) -> float:
        """Half-width: measured lies between predicted / (1 + b) and predicted x (1 + b)."""
        return math.expm1(self.log_error)

    @property
    def words(self) -> str:
        """What the band rests on, in words."""
        return f"{_HARDWARE_WORDS[self.hardware]}; {_SOFTWARE_WORDS[self.software]}"


_HARDWARE_WORDS = {
    "steps": "steps on such devices were measured",
    "kernels": "kernels on such devices were measured, steps were not",
    "generation": "of these devices' generation others were measured",
    "maker": "other generations of these devices' maker were measured",
    "other": "nothing of these devices' maker was measured",
}
_SOFTWARE_WORDS = {
    "same": "with this software",
    "other_year": "with this software of another year",
    "other": "with other software",
}


def time_band(cluster: Cluster, framework: str | Framework = "") -> SourceBand:
    """Return the band of a predicted time of a step that no run on this machine has calibrated."""
    return band(TIME, cluster, framework)


def memory_band(cluster: Cluster, framework: str | Framework = "") -> float:
    """Return the relative half-width of a predicted peak of memory: it may be off by a factor of 1 + b."""
    return band(MEMORY, cluster, framework).relative


def band(
    figure: str, cluster: Cluster, framework: str | Framework = "", errors: ErrorBands | None = None
) -> SourceBand:
    """Return the band of a figure on a cluster under a framework.

    Args:
        figure: `TIME` or `MEMORY`.
        cluster: its devices in use; the one furthest from anything measured counts.
        framework: name or framework; empty for those that the device kinds name.
        errors: what sources taught; None for the bundled file.

    Raises:
        InputError: an unknown framework, or nothing is known of errors of the figure.
    """
    known = errors or bundled_errors()
    used = {group.device_kind for group in cluster.nodes}
    kinds = [kind for kind in cluster.device_kinds if kind.name in used]
    hardware = max((hardware_distance(kind, known) for kind in kinds), key=HARDWARE.index)
    named = {framework} if framework else {kind.software.framework for kind in kinds}
    software = max((software_distance(_loaded(item), known) for item in named), key=SOFTWARE.index)
    return distant_band(figure, hardware, software, known)


def distant_band(figure: str, hardware: str, software: str, errors: ErrorBands) -> SourceBand:
    """Return the band of a figure at distances of hardware and software.

    Raises:
        InputError: nothing is known of errors of the figure.
    """
    limits = dict(errors.log_errors)
    if figure not in limits:
        raise InputError(
            f"no source says how far {figure!r} is off",
            key="log_errors",
            found=figure,
            allowed=", ".join(limits),
        )
    by = factor(errors, hardware, software)
    return SourceBand(log_error=limits[figure] * by, hardware=hardware, software=software)


def factor(errors: ErrorBands, hardware: str, software: str) -> float:
    """Return by how much a band is wider than the narrowest, in logarithms."""
    return dict(errors.hardware)[hardware] * dict(errors.software)[software]


def hardware_distance(kind: DeviceKind, errors: ErrorBands) -> str:
    """Return how far a device kind is from anything measured, one of `HARDWARE`."""
    if any(kind.name in source.kinds for source in errors.sources):
        return "steps"
    if kind.name in errors.kernels or any(s.how == "measured" and s.key in _KERNELS for s in kind.sources):
        return "kernels"
    if any(
        kind.maker in source.makers and kind.generation in source.generations for source in errors.sources
    ):
        return "generation" if kind.maker and kind.generation else "other"
    return (
        "maker" if kind.maker and any(kind.maker in source.makers for source in errors.sources) else "other"
    )


def software_distance(framework: Framework, errors: ErrorBands) -> str:
    """Return how far a framework is from any whose steps were measured, one of `SOFTWARE`."""
    years = [
        int(year)
        for source in errors.sources
        for name, _, year in (said.rpartition(" ") for said in source.software)
        if framework.software and name == framework.software
    ]
    if any(abs(framework.year - year) <= _SAME_YEARS for year in years):
        return "same"
    return "other_year" if years else "other"


def without(errors: ErrorBands, source: str) -> ErrorBands:
    """Return what is known without the rows of a source: distances are those from the others."""
    return replace(errors, sources=tuple(item for item in errors.sources if item.source != source))


def between_quantile(groups: Sequence[Sequence[float]], *, coverage: float = COVERAGE) -> float:
    """Return the value that a row of a new source does not exceed with probability `coverage`.

    Args:
        groups: for every source, the |log errors| of its rows; sources weigh equally.
        coverage: the probability.

    With fewer than coverage / (1 - coverage) sources no value is sure: the unseen one then has no weight, and
    the value covers so much of those that are known.

    >>> between_quantile([[0.1, 0.2], [0.1, 0.3], [0.2], [0.05, 0.4]])
    0.4
    """
    sure = len(groups) / (len(groups) + 1) >= coverage - 1e-9
    share = 1 / (len(groups) + sure)
    weighed = sorted((abs(value), share / len(rows)) for rows in groups for value in rows)
    total = 0.0
    for value, weight in weighed:
        total += weight
        if total >= coverage - 1e-9:
            return value
    return weighed[-1][0] if weighed else math.nan


def _loaded(framework: str | Framework) -> Framework:
    return framework if isinstance(framework, Framework) else load_framework(framework)


def bundled_errors() -> ErrorBands:
    """Return what the bundled file says."""
    return load_errors(sample_folder("errors") / f"{FILE}.yaml")


@cache
def load_errors(path: Path) -> ErrorBands:
    """Read a file of errors between sources.

    Raises:
        InputError: a file that is missing or wrong: one line with file, key, value and what is allowed.
    """
    raw = read_document(path)
    if not isinstance(raw, Mapping) or raw.get("schema") != SCHEMA:
        found = raw.get("schema") if isinstance(raw, Mapping) else raw
        raise InputError("not errors of sources", file=str(path), key="schema", found=found, allowed=SCHEMA)
    own = {key: value for key, value in raw.items() if key != "schema"}
    try:
        return validate(to_fields(own, ErrorBands), ErrorBands)
    except InputError as error:
        raise error.within(file=str(path)) from None
