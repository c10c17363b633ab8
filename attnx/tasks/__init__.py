"""Tasks: data, loss and metrics."""
