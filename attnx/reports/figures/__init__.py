"""Figures of runs: heat maps, curves of training, and numbers."""
