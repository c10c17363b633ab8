"""The model ``entity``: a recurrent entity network, a memory of slots that answers questions about a story."""
