"""What notebooks show of runs, predictions and reports: fragments of HTML."""
