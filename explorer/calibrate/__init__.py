"""Calibration: what runs and traces say of a cluster profile, with an error band per number.

`numbers` lists what may be off, `posterior` holds the arithmetic, `estimate` the correction; `kineto` and
`runs` read measurements, `conformal` and `history` learn from them how far predictions are off.
"""
