"""Sharded for real: the layers of a graph on the ranks of a mesh, laid out by named dimensions.

mesh          lines of ranks along every mesh axis, and a meter of the bytes they send
collectives   linear operators over a line, each with its adjoint
pieces        which indices of a dimension each device has
boxing        conversions between layouts, forward and backward, as `explorer.sharding` plans them
execution     a graph's layers in order, each on its pieces (`kinds`)
"""
