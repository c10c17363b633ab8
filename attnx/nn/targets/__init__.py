"""What the steps of a target are, and all that follows from it: a symbol each, or a row of numbers."""
