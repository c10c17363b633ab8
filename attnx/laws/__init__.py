"""The laws of each kind of part: one file per kind, one function per law, whose docstring states it.

A law takes a :class:`~attnx.laws.candidate.Candidate` and raises :class:`~attnx.laws.violation.Violation`. The tests,
``attnx check NAME`` and the check of a plug-in part before training all call the same functions.
"""
