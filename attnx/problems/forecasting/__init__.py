"""Forecasts of time series: the task ``forecasting``, and the model that attends to its own past, ``history``."""
