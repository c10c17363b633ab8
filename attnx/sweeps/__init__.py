"""Sweeps: many compositions, each trained in a process of its own, so that none disturbs another."""
