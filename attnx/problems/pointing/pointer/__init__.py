"""The model ``pointer``: a pointer network, whose outputs are positions of its input."""
