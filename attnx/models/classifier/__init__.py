"""The model ``classifier``: attention over an encoded source, and one label."""
