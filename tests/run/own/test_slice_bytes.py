"""Peak bytes of ranks with slices: predicted from their shares of layers, counted in real runs."""

from __future__ import annotations

import pytest

from explorer.run.cases.short_cases import short_case
from explorer.run.judging import short_results
from explorer.run.judging.calibrate import uncalibrated
from explorer.run.judging.cost_check import priced_by
from explorer.run.judging.held_bytes import predicted_bytes
from explorer.run.own.own_scale import own_scaled
from tests.run.own.slice_cases import Cut, parts, with_cut
from tests.run.own.test_own_scale import plan
from tests.run.threads import peak_on_threads

pytestmark = pytest.mark.usefixtures("one_thread")
HEAD = {"layers": "2", "embed": "64", "heads": "4", "vocab": "5000", "tied": "no"}
"""The head's weight and what it makes of a sample have 1.3 MB each, all blocks' weights 0.4 MB."""
BLOCKS = {"layers": "2", "embed": "128", "heads": "4", "vocab": "100", "tied": "no"}
"""One linear layer has a third of a block's weights."""
UP, DOWN = ("layers.0.mlp.up", "layers.0.mlp.gelu"), "layers.0.mlp.down"
WITHIN = 0.05


CUTS: dict[str, tuple[dict[str, str], tuple[Cut, ...], tuple[str, ...]]] = {
    "an eighth of a sum": (HEAD, (("head", "embed", parts(0.125)),), ()),
    "most of a sum": (HEAD, (("head", "embed", parts(0.875)),), ()),
    "an eighth of places": (HEAD, (("head", "vocab", parts(0.125)),), ()),
    "half of places": (HEAD, (("head", "vocab", parts(0.5)),), ()),
    "a linear's sum": (BLOCKS, ((DOWN, "ffn", parts(0.25)),), ("layers.0.mlp.add",)),
    "a linear's places": (BLOCKS, ((DOWN, "embed", parts(0.25)),), ("layers.0.mlp.add",)),
    "a feed-forward": (
        BLOCKS, tuple((name, "ffn", parts(0.25)) for name in (*UP, DOWN)), ("layers.0.mlp.add",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CUTS)
def test_peaks_of_slices(name: str) -> None:
    settings, cuts, later = CUTS[name]
    whole = plan("gpt", settings, 64, microbatches=4, stages=2)
    scaled, _ = own_scaled(with_cut(whole, *cuts, moved=dict.fromkeys(later, 1)), ranks=2)
    rough, graph = uncalibrated(2), short_results._operators(scaled)
    run = short_case("bytes", scaled, scaled.strategy, rough, fewest=2)
    predicted = predicted_bytes(priced_by(run, graph, scaled.strategy, rough), graph)
    counting = short_case("bytes", scaled, scaled.strategy, rough, once=True, count_bytes=True, fewest=2)
    for rank in range(2):
        assert predicted[rank] == pytest.approx(peak_on_threads(counting, rank), rel=WITHIN), rank
