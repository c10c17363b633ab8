"""The normalizers: how scores become weights. One normalizer, one file."""
