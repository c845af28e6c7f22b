"""Score: how far predictions are from what other people measured on real machines."""
