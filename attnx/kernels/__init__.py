"""Faster ways to what :mod:`attnx.attention` defines, equal in output and gradients; without this folder all works.

A kernel is one file with one registered class, which names the parts that it serves. Attention asks each of them before
every read, and reads as the parts define it where none admits the read.
"""
