"""Tasks: what a strategy and an order become, with durations left open (see `program`)."""
