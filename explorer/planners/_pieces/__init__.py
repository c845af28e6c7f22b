"""What planners share.

A model is a `work_graph` of nodes that stay whole, simplified where `free_nodes` cannot matter; its ideals
are a `lattice`, over which `max_load` is a dynamic program whose loops are in `reach`. Devices are groups of
a `fleet`, by machine in `machines`; `plans` makes strategies of stages, `scattered` of placements that need
not be contiguous, as `earliest_finish` makes them by list scheduling and a `placement_program` by integer
program; a `hybrid_rule` says when workers of several devices pay. `series_parallel` is the form of a graph of
branches.

Where layers choose their shardings, a `layer_meshes` has the costs of a mesh as a `choice_graph`, vertices
are settled in a `vertex_order` or chosen `best_first`, `folding` joins those that repeat, and `fronts` are
tables of frontiers of seconds and bytes. On `unlike_devices` shares of a layer are unequal. An
`integer_program` is solved in another process.

Planners that learn share `stage_plans`, and `moves` with one budget. `generations` is a genetic algorithm, a
`policy` learns by its gradient, a `q_network` what decisions of a `plan_building` are worth.
"""
