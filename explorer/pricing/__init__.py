"""Pricing: seconds, bytes and shared rates of every slot of a program, and memory by section.

The only place where a placement meets the cost model.

    lines    devices along the mesh axes of a row        inside   collectives of a lane's own axes
    section  seconds of a section on a row               states   update, reduction and gather of weights
    beside   what of them work hides                     host     sparse states and offload
    routes   transfers between two rows                  crossing the same by gathers and broadcasts
    demands  what slots ask of shared links              exchanges who holds, reduces, gathers and sends what
    pricer   one placement's slots                       prices   all of a program's
    schedule_costs  what schedules that look at seconds and bytes are told

What a number depends on are the arguments of the function that makes it, and those are its cache key
(`explorer.base.caching.remembered`): moving one layer re-prices two stages.
"""

from __future__ import annotations

from explorer.pricing.pricer import Pricer
from explorer.pricing.prices import Prices, price
from explorer.pricing.routes import Route, lane_route
from explorer.pricing.schedule_costs import ScheduleCosts, schedule_costs
from explorer.pricing.section_time import SectionTime

__all__ = [
    "Pricer", "Prices", "Route", "ScheduleCosts", "SectionTime", "lane_route", "price", "schedule_costs"
]  # fmt: skip
