"""The report of a sweep: ranking, tests and effects of settings."""
