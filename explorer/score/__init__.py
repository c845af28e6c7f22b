"""Score: how far predictions are from other people's measurements on real machines."""
