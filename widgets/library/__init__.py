"""The Library tab."""
