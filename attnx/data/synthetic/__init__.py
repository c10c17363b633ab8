"""Data made from a seed, and what they share with data that are read."""
