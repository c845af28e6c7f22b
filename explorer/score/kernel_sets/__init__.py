"""Sets of measured kernels: one file each, found by `explorer.score.kernels.KERNEL_SETS`."""
