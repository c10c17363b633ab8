"""The laws that every part of a kind obeys, one file a kind; each law is a function whose docstring states it.

A law takes a :class:`~attnx.laws.candidate.Candidate` and raises :class:`~attnx.laws.violation.Violation`. The tests,
``attnx check NAME`` and the check of a plug-in part before training all call the same functions.
"""
