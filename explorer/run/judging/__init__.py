"""Judging: what a run measured beside what was predicted, its own and results from elsewhere."""
