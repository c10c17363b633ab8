"""The biases: what the distance of a memory position adds to its score. One bias, one file."""
