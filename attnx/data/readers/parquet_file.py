"""Reading Parquet files with the optional package pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnx.errors import UserError
from attnx.registry.optional_deps import require


def read_parquet(path: Path) -> Any:
    """Read a file as a ``pyarrow.Table``.

    Raises:
        UserError: the file is missing or not a Parquet file, or pyarrow is not installed.
    """
    parquet = require("pyarrow.parquet", "parquet", str(path))
    pyarrow = require("pyarrow", "parquet", str(path))
    try:
        # Not read_table, which reads folder names such as label=3/ as a column. No threads: loaders fork later.
        with parquet.ParquetFile(path) as file:
            return file.read(use_threads=False)
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{path}: is not a Parquet file: {str(error).splitlines()[0]}") from error
