"""The model ``entity``: a recurrent entity network, a memory of slots that is written while a story is read."""
