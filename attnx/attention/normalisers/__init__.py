"""The normalisers: how scores become weights. One normaliser, one file."""
