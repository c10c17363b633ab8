"""Answers that are positions of the input: the task ``pointing``, its metrics, and pointer networks."""
