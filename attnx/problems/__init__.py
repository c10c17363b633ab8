"""Whole problems: each folder has a task, its data and metrics, its model and its figures, as a plug-in of a user has.

Nothing else in attnx imports them; their parts are read from source, like all parts.
"""
