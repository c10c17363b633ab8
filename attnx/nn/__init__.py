"""Layers that are not attention."""
