"""A script's request: one JSON object, its only argument. It needs torch alone."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TypeVar

import torch


@dataclass(frozen=True)
class Training:
    """A model to train: its pairs, sizes and steps."""

    pairs: str
    """A file of lines ``word<TAB>phone phone``."""
    batch: int
    embedding: int
    encoder: int
    """LSTM units in each of the encoder's two directions."""
    decoder: int
    updates: int
    """Steps to train."""
    threads: int


Request = TypeVar("Request", bound=Training)


def read_request(kind: type[Request]) -> Request:
    """Read the request and set torch's threads by it."""
    request = kind(**json.loads(sys.argv[1]))
    torch.set_num_threads(request.threads)
    return request
