"""Statistics of reports: variances, tests, intervals, the bootstrap, and alignments."""
