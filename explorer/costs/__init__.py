"""Costs: seconds of compute and communication, bytes of memory, joules and dollars."""
