"""Filters the runs of a report by words, as ``attnx runs`` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnx.errors import UserError
from attnx.files.parse_number import is_number
from attnx.reports.run_filters import check_keys, explain_empty, parse_filter
from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.status import RunStatus

ADVICE = "a report filters by choices, results, name, path, seed, status, created and duration"


def filter_records(records: Sequence[RunRecord], words: Sequence[str]) -> list[RunRecord]:
    """The runs that pass all filters, and those that cannot be read, which the report names.

    Raises:
        UserError: a word is no filter, no run has its key, or none passes.
    """
    if not words:
        return list(records)
    unreadable = [record for record in records if record.status == RunStatus.UNREADABLE]
    passed = [(record, _values(record)) for record in records if record.status != RunStatus.UNREADABLE]
    filters = list(map(parse_filter, words))
    check_keys([condition.key for condition in filters], {key for _, values in passed for key in values}, ADVICE)
    for condition in filters:
        compared = [values.get(condition.key) for _, values in passed]
        passed = [entry for entry, value in zip(passed, compared, strict=True) if condition.admits(value)]
        if not passed:
            raise UserError(f"no run passes {explain_empty(condition, compared)}")
    return [*(record for record, _ in passed), *unreadable]


def _values(record: RunRecord) -> dict[str, Any]:
    """What filters may ask for: choices, of which a table of runs has the text, results, and some facts."""
    choices = {key: _number_or(value) for key, value in record.choices.items()}
    facts = {
        "name": record.label,
        "path": str(record.path),
        "seed": record.seed,
        "status": record.status,
        "created": record.created_at,
        "duration": record.results.get("train_seconds"),
    }
    return {**choices, **record.results, **facts}


def _number_or(value: Any) -> Any:
    return float(value) if isinstance(value, str) and is_number(value) else value
