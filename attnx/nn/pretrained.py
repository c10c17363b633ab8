"""Pretrained embeddings from a text file: a symbol and its numbers a line, as word2vec and GloVe write them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from attnx.data.readers.lines import read_lines
from attnx.errors import UserError
from attnx.files.parse_number import is_number


@torch.no_grad()
def load_vectors(embedding: nn.Embedding, ids: Mapping[str, int], path: Path) -> None:
    """Copy the vectors of known symbols into an embedding; symbols the file lacks keep their random start.

    Raises:
        UserError: the file is missing, a line is malformed or of another width (with file and line), or no symbol fits.
    """
    width, has_copied = embedding.embedding_dim, False
    for line_number, line in read_lines(path):
        symbol, numbers = _fields(line, width)
        if not symbol or (line_number == 1 and len(numbers) == 1):
            continue  # a blank line, or word2vec's header: how many symbols, how wide
        where = f"{path}:{line_number}"
        if len(numbers) != width:
            raise UserError(f"{where}: {len(numbers)} numbers, but model.embedding_dim={width}; make them agree")
        if symbol not in ids:
            continue
        try:
            vector = torch.tensor([float(number) for number in numbers])
        except ValueError as error:
            raise UserError(f"{where}: not a number ({error})") from None
        if not vector.isfinite().all():
            raise UserError(f"{where}: a vector must hold finite numbers only")
        embedding.weight[ids[symbol]] = vector
        has_copied = True
    if not has_copied:
        raise UserError(f"{path}: holds no vector for any of the {len(ids)} symbols")


def _fields(line: str, width: int) -> tuple[str, list[str]]:
    """A line's symbol, in which there may be spaces of any kind, and its numbers."""
    fields = line.strip(" \t").replace("\t", " ").split(" ")
    parts = max(1, len(fields) - width)
    if all(map(is_number, fields[1:parts])):
        parts = 1  # more numbers than there should be
    return " ".join(fields[:parts]), fields[parts:]
