"""Lightning callbacks of training."""
