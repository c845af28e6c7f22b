"""What every part stands on: units, errors, registries, caches, files."""
