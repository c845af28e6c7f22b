"""The Export tab: the files that a trainer would be given."""
