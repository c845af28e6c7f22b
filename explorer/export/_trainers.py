"""Answers that trainers have in common; a target's own table starts from them and overrides some."""

from __future__ import annotations

from explorer.export._support import Capabilities, no, yes

TRAINER: Capabilities = {
    "several_jobs": no("it trains one model; export a plan with one job for each"),
    "overlapping_groups": no("ranks form one grid; put stages on equal or disjoint groups"),
    "mesh_shapes": no("all stages have the same degrees; give every stage as many replicas"),
    "round_robin": no("every replica runs all microbatches; set replicas: split"),
    "slices": no("a stage is whole modules; move the boundary to the end of the layer"),
    "layer_meshes": no("all modules of a stage share its mesh; drop the exceptions"),
    "mixed_layout": no("all stages are sharded alike; give them one layout"),
    "mixed_zero": no("one level for all stages"),
    "recompute_first": no("all blocks are recomputed alike; drop the exceptions"),
    "recompute_groups": no("all blocks are recomputed alike; drop the exceptions"),
    "recompute_blocks": no("all blocks are recomputed alike; drop the exceptions"),
    "recompute_layers": no("it recomputes whole blocks; drop the exceptions"),
    "offload_layers": no("all blocks keep theirs alike; drop the exceptions"),
    "sparse_states": no("it keeps states of all weights; set density: 1"),
    "dispatch": no("it runs one fixed order; use 1f1b"),
    "asynchronous": no("it keeps one weight version; use 1f1b"),
    "newer_weights": no("it keeps one weight version; use 1f1b"),
    "sweeps": no("it runs every sample once a step; use 1f1b"),
    "mixed_devices": yes("every rank gets an equal share whatever its device is"),
    "uneven_nodes": yes("run.sh starts as many ranks on each node as it gives devices"),
    "device_order": no("ranks are numbered stage by stage; renumber devices so that they ascend"),
    "parameter_server": no("it all-reduces; drop the sync entries"),
    "update_rule": no("it reduces every step and waits for it; drop updates"),
    "best_transfers": no("every rank sends to its peer; set transfers: direct"),
    "compression": no("it sends what it computes; drop codecs"),
    "beside_work": no("drop overlap"),
}
"""Answers of a program that trains one model in one loop, synchronously, over one grid of ranks."""
