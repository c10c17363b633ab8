"""The optimisers, by name."""
