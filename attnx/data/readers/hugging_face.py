"""Sentences with their translations by Hugging Face's `datasets`: from a file, a folder, or a name on its hub."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from attnx.data.readers.parallel_corpus import Sentence
from attnx.errors import UserError, suggest
from attnx.registry.optional_deps import require

# What a file's ending says of how to read it.
FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet", ".arrow": "arrow"}
# What datasets call their parts.
PARTS = {"train": ("train",), "valid": ("validation", "valid", "val", "dev"), "test": ("test",)}


def read_dataset(name: str, columns: Sequence[str], languages: Sequence[str] = ()) -> dict[str, list[Sentence]]:
    """Read the parts a dataset has of ``train``, ``valid`` and ``test``.

    Args:
        name: a file (.csv, .json, .jsonl, .parquet, .arrow), a folder of such files or of ``save_to_disk``, or a name
            on the hub, with a colon before the configuration if it has several: ``opus_books:de-en``.
        columns: the source's, then one for each target language; they may lie inside a column that holds mappings, as
            ``translation`` often does.
        languages: the names of the target languages; empty for one without a name.

    Raises:
        UserError: `datasets` is not installed, the dataset cannot be read, or lacks a column or a training part; or
            something to validate or test on is blank.
    """
    names = list(languages) or [""]
    if len(columns) != len(names) + 1:
        raise UserError(
            f"task.columns={list(columns)}: expected {len(names) + 1}, the source's and one for each target"
        )
    tables = _load(name)
    found = {}
    for part, known in PARTS.items():
        split = next((one for one in known if one in tables), None)
        if split is not None:
            found[part] = _sentences(tables[split], columns, names, f"task.dataset={name}: {split}", part != "train")
    if "train" not in found:
        raise UserError(f"task.dataset={name}: has no part called train; it has {', '.join(tables)}")
    return found


def _load(name: str) -> dict[str, Any]:
    datasets = require("datasets", "datasets", "task.dataset")
    datasets.disable_progress_bars()
    for logger in ("datasets", "huggingface_hub"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)  # what goes wrong is told below, once
    try:
        loaded = _find(datasets, name)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        cause = error.__cause__ or error
        raise UserError(f"task.dataset={name}: cannot be read: {str(cause).splitlines()[0]}") from error
    return dict(loaded) if isinstance(loaded, dict) else {"train": loaded}


def _find(datasets: Any, name: str) -> Any:
    """Where the name leads: to a file or folder if there is one, else to the hub."""
    path = Path(name)
    if path.is_dir():
        saved = any((path / mark).is_file() for mark in ("dataset_dict.json", "state.json"))
        return datasets.load_from_disk(name) if saved else datasets.load_dataset(name)
    if path.suffix in FORMATS:
        return datasets.load_dataset(FORMATS[path.suffix], data_files=str(path))
    hub, _, configuration = name.partition(":")
    return datasets.load_dataset(hub, configuration or None)


def _sentences(table: Any, columns: Sequence[str], names: Sequence[str], where: str, whole: bool) -> list[Sentence]:
    source, *targets = (_column(table, column, where) for column in columns)
    rows = (
        Sentence(text or "", (translations[place] or "",), name)
        for text, *translations in zip(source, *targets, strict=True)
        for place, name in enumerate(names)
    )
    sentences = list(rows)
    if whole and (blank := next((row for row, sentence in enumerate(sentences) if sentence.blank), None)) is not None:
        raise UserError(f"{where}: row {blank // len(names) + 1} has a blank side")
    return sentences


def _column(table: Any, column: str, where: str) -> list[str | None]:
    first = table[0] if len(table) else {}
    within = {name: list(value) for name, value in first.items() if isinstance(value, dict)}
    outer = next((name for name, inner in within.items() if column in inner), None)
    if column in table.column_names:
        texts = list(table[column])
    elif outer is not None:
        texts = [row[column] for row in table[outer]]
    else:
        known = [*table.column_names, *chain.from_iterable(within.values())]
        raise UserError(f"{where}: has no column {column!r}{suggest(column, known)}")
    if other := next((text for text in texts if not isinstance(text, str | None)), None):
        raise UserError(f"{where}: the column {column!r} holds {type(other).__name__}, expected text")
    return texts
