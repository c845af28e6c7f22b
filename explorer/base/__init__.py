"""Foundations of every other part: units, errors, registries, caches, files."""
