"""The laws of every kernel that can be checked without knowing what it supports."""

from __future__ import annotations

from attnx.laws.laws import PartLaws
from attnx.laws.violation import require


class KernelLaws(PartLaws):
    """The laws of every kernel."""

    kind = "kernel"
    quick = ("declarations",)
    methods = ("supports",)

    def declarations(self) -> None:
        """A kernel declares ``scorers``, ``scopes``, ``normalizers``, ``priority``, and has a method ``supports``."""
        self._require_declarations()
        require(callable(self.part), "", "it cannot be called")
        self._require_methods()
