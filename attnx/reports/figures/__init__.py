"""Figures of runs: heat maps, curves, forecasts, points and memory slots."""
