"""The CMU Pronouncing Dictionary, shipped with the package under its own BSD licence."""

from __future__ import annotations

from attnx.data.readers.cmudict.read import read_cmudict

__all__ = ["read_cmudict"]
