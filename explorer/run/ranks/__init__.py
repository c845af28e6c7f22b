"""Ranks: what runs on every rank: its plan of actions, their interpreter, what computes and sends."""
