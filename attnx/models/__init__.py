"""Models in plain PyTorch, usable in a notebook."""
