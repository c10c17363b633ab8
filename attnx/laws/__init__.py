"""The laws of each kind of part: one class per kind, one public method per law, whose docstring states it.

A law raises :class:`~attnx.laws.violation.Violation`. The tests, ``attnx check NAME`` and the check of a plug-in part
before training all check the same laws.
"""
