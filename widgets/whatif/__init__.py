"""The What-if tab: one number changed, and curves over many values of it."""
