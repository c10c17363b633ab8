"""Test metrics, as torchmetrics Metrics that reduce over processes."""
