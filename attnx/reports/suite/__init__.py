"""The standing of mechanisms in a suite: who is better on which task, and how surely."""
