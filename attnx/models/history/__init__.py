"""The model ``history``: an RNN that attends to its own past states."""
