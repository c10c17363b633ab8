"""Rows in an Arrow file: they are those in memory, mapped, opened again by path, and dealt to ranks without overlap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from attnx.data.arrow_rows import ArrowRows
from attnx.data.batches import Batch
from attnx.data.buckets import BucketBatches, ShardedBatchSampler, ShardedDataset, collate_shard
from attnx.data.dataset import PairDataset, Ragged
from attnx.errors import UserError

pyarrow: Any = pytest.importorskip("pyarrow")

SOURCES = [[4, 5, 6], [6], [5, 3], [4], [6, 4], [5] * 11, [4, 4]]
TARGETS = [[4, 2], [5, 5, 2], [4, 3, 2], [2], [4, 2], [5, 2], [4] * 7 + [2]]
TAGS = [2, 1, 2, 1, 2, 0, 2]


def write_table(path: Path, columns: dict[str, Any], rows_per_batch: int = 3) -> ArrowRows:
    """Write columns in batches of a few rows, and open them."""
    table = pyarrow.table(columns)
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows_per_batch)
    return ArrowRows(path)


@pytest.fixture(params=[1, 3, 100])
def rows(request, tmp_path):
    """The seven rows, in batches of one, of three, and in one."""
    return write_table(tmp_path / "rows.arrow", {"source": SOURCES, "target": TARGETS, "tag": TAGS}, request.param)


@pytest.fixture
def memory():
    """The seven rows in memory."""
    return PairDataset(Ragged.of(SOURCES), Ragged.of(TARGETS), np.array(TAGS))


def test_rows_are_read(rows):
    assert len(rows) == 7
    for index, expected in enumerate(zip(SOURCES, TARGETS, TAGS, strict=True)):
        row = rows[index]
        assert (row.source.tolist(), row.target.tolist(), row.tag) == expected
        assert row.row_index == index
    for outside in (-1, 7):
        with pytest.raises(IndexError):
            rows[outside]
    assert rows.lengths(np.array([5, 0, 6])).tolist() == [[11, 2], [3, 2], [2, 8]]


def test_data_without_tags_have_tag_0(tmp_path):
    rows = write_table(tmp_path / "rows.arrow", {"source": SOURCES, "target": TARGETS})
    assert {rows[index].tag for index in range(7)} == {0}
    assert rows.fingerprint() == PairDataset(Ragged.of(SOURCES), Ragged.of(TARGETS)).fingerprint()


def test_narrow_ids_have_the_fingerprint_of_wide_ones(rows, memory, tmp_path):
    """And that of memory; another id, another bound or another tag has another one."""
    narrow = pyarrow.list_(pyarrow.uint16())
    columns = {"source": pyarrow.array(SOURCES, narrow), "target": pyarrow.array(TARGETS, narrow), "tag": TAGS}
    assert write_table(tmp_path / "narrow.arrow", columns).fingerprint() == rows.fingerprint() == memory.fingerprint()
    for name, changed in {
        "source": [[4, 5, 5], *SOURCES[1:]],
        "target": [[4, 2, 5], [5, 2], *TARGETS[2:]],
        "tag": [1, *TAGS[1:]],
    }.items():
        changed_rows = write_table(tmp_path / f"{name}.arrow", {**columns, name: changed})
        assert changed_rows.fingerprint() != memory.fingerprint()


@pytest.mark.parametrize("options", [{"size": 2}, {"tokens": 12}])
def test_batches_are_those_of_memory(rows, memory, options):
    """At equal seeds."""
    for epoch in range(3):
        order, expected = (BucketBatches(data, **options, seed=5, pool=2) for data in (rows, memory))
        order.set_epoch(epoch)
        expected.set_epoch(epoch)
        assert list(order) == list(expected)


def test_ids_are_mapped(rows):
    """Nothing can write to them, and together the views are of the file."""
    for part in rows.parts:
        for array in (part.sources.flat, part.targets.flat, part.tags):
            assert not array.flags.writeable
            assert not array.flags.owndata


def test_ranks_have_disjoint_rows(rows):
    """Together they have each row once; so have accumulated batches."""
    indices: list[int] = []
    for rank in range(3):
        sampler = ShardedBatchSampler(BucketBatches(rows, 4, seed=7), rank, world_size=3, accumulation_steps=2)
        batches: list[Batch] = list(DataLoader(ShardedDataset(rows), batch_sampler=sampler, collate_fn=collate_shard))
        indices += [index for batch in batches for index in batch.row_index.tolist() if index >= 0]
    assert sorted(indices) == list(range(7))


@pytest.mark.parametrize("case", ["missing", "empty", "text", "cut", "columns", "flat", "nulls"])
def test_another_file_is_refused(case, tmp_path):
    path = tmp_path / "rows.arrow"
    if case in ("columns", "flat", "nulls"):
        columns = {
            "columns": {"source": SOURCES},
            "flat": {"source": [1, 2], "target": [1, 2]},
            "nulls": {"source": [[4, None]], "target": [[2]]},
        }
        with pytest.raises(UserError, match=r"rows.arrow: is not an Arrow file of rows"):
            write_table(path, columns[case])
        return
    if case != "missing":
        path.write_bytes({"empty": b"", "text": b"a text, and no table" * 9}.get(case, b""))
    if case == "cut":
        write_table(path, {"source": SOURCES, "target": TARGETS})
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UserError, match=r"rows.arrow: is not an Arrow file of rows"):
        ArrowRows(path)
