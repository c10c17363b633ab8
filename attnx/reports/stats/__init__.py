"""Statistics of reports: tests, intervals, bootstrap and error tables."""
