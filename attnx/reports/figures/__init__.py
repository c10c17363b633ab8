"""Figures of runs: heat maps, curves, forecasts and numbers."""
