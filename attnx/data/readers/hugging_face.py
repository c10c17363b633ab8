"""Reading parallel corpora with Hugging Face's `datasets`: from a file, a folder, or a name on its hub."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from attnx.data.readers.parallel_corpus import Sentence
from attnx.errors import UserError, suggest
from attnx.registry.optional_deps import require_package

# Format by file ending.
FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet", ".arrow": "arrow"}
# Names of the parts in data sets.
PART_NAMES = {"train": ("train",), "valid": ("validation", "valid", "val", "dev"), "test": ("test",)}


def read_dataset(name: str, columns: Sequence[str], languages: Sequence[str] = ()) -> dict[str, list[Sentence]]:
    """Read those of the parts ``train``, ``valid`` and ``test`` that a data set has.

    Args:
        name: a file (.csv, .json, .jsonl, .parquet, .arrow), a folder of such files or of ``save_to_disk``, or a name
            on the hub, with a colon before the configuration if there are several: ``opus_books:de-en``.
        columns: the source's, then one for each target language; they may be keys of a column of mappings.
        languages: names of the target languages; empty for one without a name.

    Raises:
        UserError: `datasets` is not installed, the data set cannot be read, or lacks a column or a training part; or a
            valid or test sentence is blank.
    """
    names = list(languages) or [""]
    if len(columns) != len(names) + 1:
        raise UserError(f"task.columns={list(columns)}: expected {len(names) + 1}, the source's and one per target")
    tables = _load(name)
    parts = {}
    for part, part_names in PART_NAMES.items():
        split = next((split for split in part_names if split in tables), None)
        if split is not None:
            location = f"task.dataset={name}: {split}"
            parts[part] = _read_sentences(tables[split], columns, names, location, allow_blank=part == "train")
    if "train" not in parts:
        raise UserError(f"task.dataset={name}: has no part called train; it has {', '.join(tables)}")
    return parts


def _load(name: str) -> dict[str, Any]:
    datasets = require_package("datasets", "datasets", "task.dataset")
    datasets.disable_progress_bars()
    for logger in ("datasets", "huggingface_hub"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)  # errors are raised below, once
    try:
        loaded = _load_dataset(datasets, name)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        cause = error.__cause__ or error
        raise UserError(f"task.dataset={name}: cannot be read: {str(cause).splitlines()[0]}") from error
    return dict(loaded) if isinstance(loaded, dict) else {"train": loaded}


def _load_dataset(datasets: Any, name: str) -> Any:
    """Load a file or folder if it exists, else a data set on the hub."""
    path = Path(name)
    if path.is_dir():
        saved = any((path / mark).is_file() for mark in ("dataset_dict.json", "state.json"))
        return datasets.load_from_disk(name) if saved else datasets.load_dataset(name)
    if path.suffix in FORMATS:
        return datasets.load_dataset(FORMATS[path.suffix], data_files=str(path))
    hub, _, configuration = name.partition(":")
    return datasets.load_dataset(hub, configuration or None)


def _read_sentences(
    table: Any, columns: Sequence[str], names: Sequence[str], location: str, allow_blank: bool
) -> list[Sentence]:
    source, *targets = (_read_column(table, column, location) for column in columns)
    rows = (
        Sentence(text or "", (translations[index] or "",), name)
        for text, *translations in zip(source, *targets, strict=True)
        for index, name in enumerate(names)
    )
    sentences = list(rows)
    blank = (row for row, sentence in enumerate(sentences) if sentence.is_blank)
    if not allow_blank and (row := next(blank, None)) is not None:
        raise UserError(f"{location}: row {row // len(names) + 1} has a blank side")
    return sentences


def _read_column(table: Any, column: str, location: str) -> list[str | None]:
    first = table[0] if len(table) else {}
    nested = {name: list(value) for name, value in first.items() if isinstance(value, dict)}
    outer = next((name for name, keys in nested.items() if column in keys), None)
    if column in table.column_names:
        texts = list(table[column])
    elif outer is not None:
        texts = [row[column] for row in table[outer]]
    else:
        columns = [*table.column_names, *chain.from_iterable(nested.values())]
        raise UserError(f"{location}: has no column {column!r}{suggest(column, columns)}")
    if wrong := next((text for text in texts if not isinstance(text, str | None)), None):
        raise UserError(f"{location}: the column {column!r} holds {type(wrong).__name__}, expected text")
    return texts
