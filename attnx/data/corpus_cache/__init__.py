"""Encoded training corpora, cached as memory-mapped files."""
