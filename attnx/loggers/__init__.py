"""The loggers, by name: where else a run's figures and pictures go."""
