"""Pricing: seconds, bytes and shared rates of every slot of a program, and memory by section.

The only place where a placement meets the cost model.

    mesh_lines        devices along the mesh axes     lane_collectives  collectives of a lane's own axes
    section_time      seconds of a section on a row   gradient_sync     update, reduction, gather of weights
    overlap           collectives that work hides     host_memory       sparse states and offload
    routes            transfers between two rows      stage_transfers   the same by gathers and broadcasts
    link_shares       demands on shared links         piece_tensors     tensors held, reduced, gathered, sent
    pricer            slots of one placement          prices            all numbers of a program
    layer_columns     seconds and bytes by layer      schedule_costs    what schedules are told

A number depends on exactly the arguments of the function that makes it, and those are its cache key
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
