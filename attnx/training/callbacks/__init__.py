"""Lightning callbacks: what happens beside the training step."""
