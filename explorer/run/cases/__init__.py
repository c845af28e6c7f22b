"""Cases: what a run is to do, made from a plan: its likeness here, what that leaves out, baselines."""
