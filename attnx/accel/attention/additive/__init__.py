"""Additive attention in C, in CUDA and in Triton."""
