"""Lowering task by task in plain Python: the reference of the array one in `explorer.tasks`."""
