"""The statistics of comparisons: which of several means is best, what each factor does, how many seeds would tell."""
