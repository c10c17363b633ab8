"""Metrics as torchmetrics Metrics, so that they reduce over processes."""
