"""The Compare tab: plan A next to plan B, in numbers and in words."""
