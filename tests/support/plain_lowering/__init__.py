"""Lowering task by task in plain Python: the reference of the array one in `explorer.tasks`.

What did not change with arrays is written apart here as well (`runs`, `memory_events`), or is the product's
own: how versions are counted, lanes, sections, flows and holders, for which emulation and real runs are the
second opinion. Assigned orders (`assignments`) follow the product's rules line by line; their times are held
to those of the pass that decides them (`tests/simulation/test_dispatch_job.py`).
"""
