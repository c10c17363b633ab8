"""Reading parallel corpora with Hugging Face's `datasets`: from a file, a folder, or a name on its hub."""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from attnx.data.paths import cache_folder
from attnx.data.readers.parallel_corpus import Sentence
from attnx.errors import UserError, suggest
from attnx.files.bounded_files import refuse_pipe
from attnx.files.printable import quoted
from attnx.registry.dependencies import require_package

# Format by file ending.
FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet", ".arrow": "arrow"}
ROWS_PER_BATCH: Final = 1000
# Names of the splits in data sets.
SPLIT_NAMES = {"train": ("train",), "valid": ("validation", "valid", "val", "dev"), "test": ("test",)}


class DatasetText:
    """A split of a data set that is read row by row, from Arrow files that `datasets` maps into memory.

    ``columns`` are the source's, then one for each target language; they may be keys of a column of mappings.
    ``languages`` are the names of the target languages, empty for one without a name; ``location`` is for messages.
    """

    def __init__(self, table: Any, columns: Sequence[str], languages: Sequence[str], location: str) -> None:
        self.names, self.location = list(languages) or [""], location
        self.columns = [(_outer_column(table, column, location), column) for column in columns]
        self.table = table.select_columns(list(dict.fromkeys(outer or column for outer, column in self.columns)))
        self.files = [Path(file["filename"]) for file in table.cache_files]

    def read(self, allow_blank: bool) -> Iterator[Sentence]:
        """Read all sentences, the languages in turn.

        Raises:
            UserError: a column holds no text, or a side is blank and not ``allow_blank``.
        """
        row_number = 0
        for batch in self.table.iter(ROWS_PER_BATCH):
            sides = []
            for outer, column in self.columns:
                texts = batch[column] if outer is None else [row and row[column] for row in batch[outer]]
                if wrong := [type(text).__name__ for text in texts if not isinstance(text, str | None)]:
                    raise UserError(f"{self.location}: the column {column!r} holds {wrong[0]}, expected text")
                sides.append(texts)
            for text, *translations in zip(*sides, strict=True):
                row_number += 1
                for name, translation in zip(self.names, translations, strict=True):
                    sentence = Sentence(text or "", (translation or "",), name)
                    if sentence.is_blank and not allow_blank:
                        raise UserError(f"{self.location}: row {row_number} has a blank side")
                    yield sentence


def open_dataset(name: str, columns: Sequence[str], languages: Sequence[str] = ()) -> dict[str, DatasetText]:
    """Open the splits that a data set has of ``train``, ``valid`` and ``test``, as :class:`DatasetText`.

    Its name is a file (.csv, .json, .jsonl, .parquet, .arrow), a folder of such files or of ``save_to_disk``, or a name
    on the hub, with a colon before the configuration if there are several: ``opus_books:de-en``.

    Raises:
        UserError: `datasets` is not installed, the data set cannot be read, or lacks a column or a training split.
    """
    count = max(1, len(languages)) + 1
    if len(columns) != count:
        raise UserError(f"task.columns={list(columns)}: expected {count}, the source's and one per target")
    datasets = require_package("datasets", "datasets", "task.dataset")
    datasets.disable_progress_bars()  # it prints nothing, since its errors are raised
    for logger in ("datasets", "huggingface_hub"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    try:
        loaded = _load(datasets, name)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        cause = error.__cause__ or error
        raise UserError(f"task.dataset={name}: cannot be read: {str(cause).splitlines()[0]}") from error
    tables = dict(loaded) if isinstance(loaded, dict) else {"train": loaded}
    splits = {}
    for split, table_names in SPLIT_NAMES.items():
        table = next((table for table in table_names if table in tables), None)
        if table is not None:
            splits[split] = DatasetText(tables[table], columns, languages, f"task.dataset={name}: {table}")
    if "train" not in splits:
        raise UserError(f"task.dataset={name}: has no split called train; it has {', '.join(tables)}")
    return splits


def _load(datasets: Any, name: str) -> Any:
    """Load a file or folder if it exists, else a data set on the hub."""
    path = Path(name)
    if path.is_dir():
        saved = any((path / mark).is_file() for mark in ("dataset_dict.json", "state.json"))
        if saved:
            return datasets.load_from_disk(name, keep_in_memory=False)
        files = sorted(file for file in path.rglob("*") if file.suffix in FORMATS and file.is_file())
        return datasets.load_dataset(name, **_file_options(files))
    if path.suffix in FORMATS:
        return datasets.load_dataset(FORMATS[path.suffix], data_files=name, **_file_options([path] * path.is_file()))
    hub, _, configuration = name.partition(":")
    return datasets.load_dataset(hub, configuration or None, keep_in_memory=False)


def _file_options(files: Sequence[Path]) -> dict[str, Any]:
    """Return how files are read: they are converted within the cache; in .csv files NA, None and null are text."""
    options = {"keep_in_memory": False, "cache_dir": str(cache_folder("datasets"))}
    if {file.suffix for file in files} != {".csv"}:
        return options
    for file in files:
        refuse_pipe(file)
        try:
            with file.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
                header, row = islice(chain(csv.reader(stream), [[], []]), 2)
        except csv.Error as error:
            raise UserError(f"{file}: is not a CSV file, or a quote is not closed: {error}") from None
        if len(row) > len(header):  # of which the reader would take one as an index
            raise UserError(f"{file}:2: {len(row)} fields, but the header has {len(header)}: {quoted(','.join(row))}")
    return {**options, "keep_default_na": False}


def _outer_column(table: Any, column: str, location: str) -> str | None:
    """Return the column of mappings in which a column is a key; None if it is a column of the table."""
    if column in table.column_names:
        return None
    schema = table.features.arrow_schema
    nested: dict[str, list[str]] = {field.name: field.type.names for field in schema if hasattr(field.type, "names")}
    outer = next((name for name, keys in nested.items() if column in keys), None)
    if outer is None:
        columns = [*table.column_names, *chain.from_iterable(nested.values())]
        raise UserError(f"{location}: has no column {column!r}{suggest(column, columns)}")
    return outer
