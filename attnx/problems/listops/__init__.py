"""ListOps: the value of a nested expression of lists; the task ``listops``, drawn from a seed."""
