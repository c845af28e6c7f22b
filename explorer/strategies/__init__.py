"""Making strategies: degrees of parallelism, cuts of the model, moves of layers."""
