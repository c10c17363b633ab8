"""Reads a Parquet file, if the extra that can is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnx.errors import UserError
from attnx.registry.optional_deps import require


def parquet_table(path: Path) -> Any:
    """Read all of one file, a ``pyarrow.Table``.

    Raises:
        UserError: the file is not there or is none, or pyarrow is not installed.
    """
    parquet = require("pyarrow.parquet", "parquet", str(path))
    pyarrow = require("pyarrow", "parquet", str(path))
    try:
        # Not read_table, which takes folders such as label=3/ for a column. No threads: loaders fork later.
        with parquet.ParquetFile(path) as file:
            return file.read(use_threads=False)
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{path}: is no Parquet file: {str(error).splitlines()[0]}") from error
