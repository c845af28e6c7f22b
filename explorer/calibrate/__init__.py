"""Calibrate: what runs and traces say of a cluster profile, with an error band per number; bands that hold.

`numbers` are what may be off, `posterior` the arithmetic, `estimate` the correction; `kineto` and `runs` read
what was measured, `conformal` and `history` learn from it how far predictions are off.
"""
