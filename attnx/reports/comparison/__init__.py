"""Two or more runs side by side, on the test examples that they share."""
