"""Choice of the update rule: every registered one, for all parameters, with its options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from explorer.strategy import UpdateChoice
from explorer.updates import PLAIN, UPDATES

from .option_fields import changed_options, option_fields
from .session import Point, make_point

UPDATE = "update"
"""Key of the picker."""
UPDATE_OPTION = "update."
"""Prefix of the keys of the rule's options."""
SEVERAL = "by parameter"
"""Shown if parameters have different rules, as plans may."""


def update_fields(point: Point) -> Iterator[dict[str, Any]]:
    """Yield the picker of update rules and a field for every option of the rule; none without training."""
    if not point.inputs.job.training:
        return
    choice = _choice(point)
    shown = choice.rule if choice else SEVERAL
    rows = [{"value": rule.name, "label": rule.name, "title": rule.title} for rule in UPDATES]
    if choice is None:
        rows.append({"value": SEVERAL, "label": SEVERAL, "title": "As the plan says"})
    yield {
        "key": UPDATE, "label": "Update rule", "kind": "select", "value": shown, "options": rows,
        "title": UPDATES.get(choice.rule).title if choice else "Parameters have rules of their own",
    }  # fmt: skip
    if choice is not None:
        yield from option_fields(UPDATES.get(choice.rule), dict(choice.options), UPDATE_OPTION)


def _choice(point: Point) -> UpdateChoice | None:
    """Return the one rule of all parameters; None if there are several."""
    updates = point.strategy.job.updates
    if not updates:
        return UpdateChoice(rule=PLAIN.rule)
    return updates[0] if "*" in updates[0].parameters else None


def with_update(point: Point, key: str, value: Any) -> Point:
    """Return the state under another update rule for all parameters, or with an option of the present one.

    Raises:
        ExplorerError: no such rule, an impossible option, or a strategy that it does not work with.
    """
    if key == UPDATE:
        rule = UPDATES.get(str(value))
        made = UpdateChoice(rule=rule.name)
    else:
        now = _choice(point) or UpdateChoice(rule=PLAIN.rule)
        rule = UPDATES.get(now.rule)
        name = key.removeprefix(UPDATE_OPTION)
        made = replace(now, options=changed_options(rule, dict(now.options), name, value))
    updates = () if made.rule == PLAIN.rule else (made,)
    strategy = point.strategy.with_job(replace(point.strategy.job, updates=updates))
    said = (
        f"update rule {rule.name}"
        if key == UPDATE
        else f"{rule.name} {key.removeprefix(UPDATE_OPTION)} {value}"
    )
    return make_point(point.inputs, strategy, point.groups, note=said)
