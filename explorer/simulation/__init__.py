"""Simulation: from a strategy to its report."""
