"""Gossip: workers update on their own and average their weights with one partner at a time.

Partners change from exchange to exchange, in an order that repeats:

    ring        worker i with i + 1, then with i - 1, for even i
    hypercube   worker i with i xor 1, i xor 2, i xor 4, ...; a round of log2(n) of them is the mean of all n

A worker sends S bytes an exchange, however many workers there are; one without a partner (an odd number on a
ring, no power of two on a hypercube) sits an exchange out. Exchanges are symmetric, so that the mean over the
workers stays what it is. With two workers and period 1 it is data parallelism.
"""

from __future__ import annotations

from explorer.base.registry import Option
from explorer.updates import UPDATES, WEIGHTS, Partners, Update, UpdateRule, own

TOPOLOGY = Option(
    name="topology", default="hypercube", help="who exchanges with whom", choices=("hypercube", "ring")
)
PERIOD = Option(name="period", default=1, help="updates from one exchange to the next", minimum=1)


@UPDATES.add(
    Update(
        name="gossip",
        title="Updates of each worker's own, weights averaged with one partner at a time",
        paper="Gossiping SGD (Jin et al., 2016); GossipGraD (Daily et al., 2018)",
        options=(TOPOLOGY, PERIOD),
        trivial=(("period", 1),),
        trivial_workers=2,
    )
)
def gossip(*, topology: str, period: int) -> UpdateRule:
    """Average weights with a partner after every `period`-th update."""
    partners = ring if topology == "ring" else hypercube
    return UpdateRule(exchanges=WEIGHTS, period=period, most_zero=0, gradient=own, partners=partners)


def ring(workers: int) -> Partners:
    """Return the pairs of neighbours on a ring, those that begin at even numbers first.

    >>> ring(4)
    (((0, 1), (2, 3)), ((1, 2), (0, 3)))
    """
    pairs = [(i, i + 1) for i in range(workers - 1)]
    around = [(0, workers - 1)] if workers > 2 and workers % 2 == 0 else []
    rounds = (tuple(pairs[0::2]), (*pairs[1::2], *around))
    return tuple(found for found in rounds if found)


def hypercube(workers: int) -> Partners:
    """Return the pairs whose numbers differ in one bit, the lowest bit first.

    >>> hypercube(4)
    (((0, 1), (2, 3)), ((0, 2), (1, 3)))
    """
    bits = [1 << k for k in range((workers - 1).bit_length())]
    return tuple(
        tuple((i, i ^ bit) for i in range(workers) if not i & bit and i ^ bit < workers) for bit in bits
    )
