"""Tokenizers by name."""
