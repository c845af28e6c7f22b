"""Survey: what ranks measure of their machine for a cluster profile."""
