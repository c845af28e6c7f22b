"""What planners share.

    work_graph    a model as nodes that stay whole: seconds by device kind, bytes, tensors between them
    lattice       its ideals, and which grow into which by one node
    max_load      the dynamic program over ideals: devices of several kinds, replicas, memory
"""
