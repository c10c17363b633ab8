"""Tasks: data, metrics and texts by name."""
