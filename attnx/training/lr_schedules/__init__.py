"""The learning-rate schedules, by name; ``total_steps`` is supplied by the run."""
