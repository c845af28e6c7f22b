"""Strategies: how they are made, changed and told apart."""
