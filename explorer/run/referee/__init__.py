"""Referee: what a run should have computed, by plain definitions, without the code that ran it."""
