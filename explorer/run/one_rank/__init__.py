"""One rank: a rank of a plan at its full size, alone in this process, with faked neighbours."""
