"""Planners of published systems, one a file: searchers that are their paper's algorithm and little else.

They register with `explorer.search.SEARCHERS`, whose package finds them here. What several of them need is
written once in `_pieces`.
"""
