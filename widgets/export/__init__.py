"""The Export tab: what a trainer would be given."""
