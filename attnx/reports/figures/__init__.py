"""Figures: what runs, their attention and their forecasts look like."""
