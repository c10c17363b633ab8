"""Mixers: what a layer of a transformer holds in place of attention, with a state of fixed size."""
