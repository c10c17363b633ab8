"""The model ``history``: a recurrent network that attends to its own past states."""
