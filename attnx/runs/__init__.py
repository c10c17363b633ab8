"""The run folder and the sweep folder: the names of their files, and how each is read."""
