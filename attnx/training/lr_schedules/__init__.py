"""The learning-rate schedules, by name; one that falls towards the end of a run is supplied with ``progress``."""

from collections.abc import Callable

# The share of the training that is done after some optimizer steps, 0 to 1. How many steps there will be may change.
Progress = Callable[[int], float]
