"""What a script is asked for, as one object of JSON, its only argument. It needs torch alone."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TypeVar

import torch


@dataclass(frozen=True)
class Training:
    """A model to train: on which pairs, at which sizes, how long."""

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


Asked = TypeVar("Asked", bound=Training)


def read_request(kind: type[Asked]) -> Asked:
    """Read what is asked for and set torch's threads as it says."""
    request = kind(**json.loads(sys.argv[1]))
    torch.set_num_threads(request.threads)
    return request
