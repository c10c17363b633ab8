"""The model ``transformer``: layers of self-attention, cross-attention and feed-forward maps."""
