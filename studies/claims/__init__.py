"""What the experiments claim, and what they measured."""
