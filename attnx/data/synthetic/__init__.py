"""Data sets that are generated from a seed: pointing problems and stories."""
