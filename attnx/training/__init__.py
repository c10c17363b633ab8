"""Training with Lightning, and run folders."""
