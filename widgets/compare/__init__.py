"""The Compare tab: plan A beside plan B, in numbers and in words."""
