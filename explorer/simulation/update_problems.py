"""Problems with the update rules of a strategy, in words."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.strategy import JobStrategy, UpdateChoice
from explorer.updates import PLAIN, WEIGHTS, UpdateRule, chosen, rule_of


def update_problems(graph: LayerGraph, strategy: JobStrategy, *, dispatches: bool) -> Iterator[str]:
    """Yield the problems of update rules: unknown names and options, and combinations that do not work."""
    rules: dict[UpdateChoice, UpdateRule] = {}
    for choice in strategy.updates:
        names = ", ".join(choice.parameters)
        try:
            rules[choice] = rule_of(chosen(choice.rule, choice.options))
        except InputError as error:
            yield f"update of {names}: {error}"
        if not any(fnmatchcase(name, pattern) for pattern in choice.parameters for name in graph.parameter):
            yield f"update of {names} matches no parameter of {graph.name!r}"
    special = {choice: rule for choice, rule in rules.items() if choice.rule != PLAIN.rule}
    if not special:
        return
    if dispatches:
        yield f"schedule {strategy.schedule} updates by {PLAIN.rule} only, not {next(iter(special)).rule}"
    zero = max(stage.zero for stage in strategy.stages)
    for choice, rule in special.items():
        if zero > rule.most_zero:
            yield f"update rule {choice.rule} does not go with ZeRO {zero}; allowed: up to {rule.most_zero}"
    for name in graph.parameter if any(sync.bucket_bytes for sync in strategy.sync) else ():
        own, sync = strategy.update_of(name), strategy.sync_of(name)
        if own in special and sync and sync.bucket_bytes and _waits_not(special[own]):
            yield f"update rule {own.rule} of {name} has no use for buckets; drop bucket_bytes for it"
            return


def _waits_not(rule: UpdateRule) -> bool:
    """Tell whether no update waits for gradients that were made just before."""
    return rule.delay > 0 or rule.exchanges == WEIGHTS
