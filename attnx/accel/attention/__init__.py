"""Attention kernels: faster ways to compute scores, weights and contexts, chosen by what they support."""
