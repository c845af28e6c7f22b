"""Fitted numbers in the text of profiles: found, changed, and nothing else touched."""

from __future__ import annotations

import pytest

from explorer.base.errors import InputError
from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.score.knobs import knobs_of
from explorer.score.profile_numbers import places_of, scaled, with_numbers

KINDS = {name: {kind.name for kind in load_cluster(name).device_kinds} for name in cluster_names()}
PLAIN = sorted(
    {
        knob.key: knob
        for name in cluster_names()
        for knob in knobs_of(load_cluster(name))
        if not knob.name.startswith(("tiles", "efficiency"))
    }.values(),
    key=lambda knob: knob.key,
)


def stated() -> list[str]:
    """Knobs whose own profile states them: a kind that extends another has its parent's."""
    found = []
    for knob in PLAIN:
        try:
            places_of(knob.key, KINDS)
        except InputError:
            continue
        found.append(knob.key)
    return found


def test_most_plain_knobs_are_found() -> None:
    assert len(stated()) >= 10


@pytest.mark.parametrize("key", stated())
def test_only_the_number_and_its_source_change(key: str) -> None:
    knob = next(knob for knob in PLAIN if knob.key == key)
    place, *_ = places_of(key, KINDS)
    before = place.path.read_text(encoding="utf-8")
    (text,) = with_numbers({place: (knob.name, 0.5 * knob.value or 1.0, "some body")}).values()
    assert "fitted_on: some body" in text
    ours, theirs = before.splitlines(), text.splitlines()
    assert len(ours) == len(theirs)
    changed = [(old, new) for old, new in zip(ours, theirs, strict=True) if old != new]
    assert len(changed) <= 2
    assert any(old.strip().startswith(knob.name) for old, _ in changed) or knob.value == 0
    same = with_numbers({place: (knob.name, knob.value, knob.fitted_on)}).values()
    assert [line.split(": ")[0] for line in next(iter(same)).splitlines()] == [
        line.split(": ")[0] for line in ours
    ]


def test_several_numbers_of_one_file() -> None:
    names = {place: key.partition(".")[2] for key in stated() for place in places_of(key, KINDS)}
    first = next(place.path for place in names if sum(other.path == place.path for other in names) > 1)
    own = {place: (name, 0.5, "x") for place, name in names.items() if place.path == first}
    (text,) = with_numbers(own).values()
    assert text.count("fitted_on: x}") + text.count("fitted_on: x,") == len({p.source_start for p in own})


@pytest.mark.parametrize(
    "key", ["unheard-of.busy_slowdown", "a100-sxm-80gb.unheard_of", "x/nvswitch.latency_s"]
)
def test_what_no_file_states_is_refused(key: str) -> None:
    with pytest.raises(InputError, match="no bundled profile states"):
        places_of(key, KINDS)


@pytest.mark.parametrize(
    ("text", "factor", "value", "said"),
    [("4 us", 0.5, 2e-6, "2 us"), ("10.0e-6", 1.5, 1.5e-5, "1.5e-05"), ("0.02", 2, 0.04, "0.04"),
     ("0", 0.0, 0.05, "0.05"), ("200 Gbit/s", 0.5, 1.25e10, "100 Gbit/s")],
)  # fmt: skip
def test_units_stay(text: str, factor: float, value: float, said: str) -> None:
    assert scaled(text, factor, value) == said


def test_a_word_is_no_number() -> None:
    with pytest.raises(InputError, match="no quantity"):
        scaled("fast", 1.0, 1.0)
