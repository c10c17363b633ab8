"""The optimizers, by name."""
