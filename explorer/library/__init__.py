"""Library of published systems: each one in our terms, with its paper's claims next to our figures.

One file per system of the literature, found by its decorator: a frozen `System` (paper, what it uses of our
registries, claims) on a function that returns an `Example`, a problem small enough for the board. A `Claim`
is one statement of the paper with the published figure and the way it is computed here.

>>> from explorer.library import SYSTEMS, reproduce
>>> [outcome.holds for outcome in reproduce(SYSTEMS.get("gpipe"))][:2]
[True, True]
"""

from explorer.library.system import SYSTEMS, Claim, Example, Outcome, System, Uses, figure, reproduce

__all__ = ["SYSTEMS", "Claim", "Example", "Outcome", "System", "Uses", "figure", "reproduce"]
