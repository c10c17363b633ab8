"""The report of a sweep, of several, or of any runs: which won, how surely, and what each choice does."""
