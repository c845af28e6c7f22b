"""Tasks: what lowering makes of a strategy and an order, durations left open (see `program`)."""
