"""Encoded training corpora, stored as memory-mapped files."""
