"""A corpus kept as memory-mapped files: built, read, and found again in its folder."""
