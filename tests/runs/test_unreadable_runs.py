"""Broken or hostile run folders are left out with one line."""

import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnx.data.features import FeatureScaler
from attnx.errors import UserError
from attnx.files import bounded_files
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import (
    MAX_DEPTH,
    MAX_FILE_BYTES,
    read_array,
    read_arrays,
    read_json,
    read_yaml,
)
from attnx.files.file_lock import is_lock_held, is_lock_left
from attnx.problems.forecasting.series import TEST_SERIES, read_test_series
from attnx.problems.pointing.saved_points import POINTS_FILE, read_points
from attnx.runs.alignments import Alignment, alignment_arrays, read_alignment
from tests.run_folder import write_run_folder

Command = Callable[..., Any]


def write_run(folder: str, per: float = 7.0, **config: Any) -> Path:
    """What ``attnx runs``, ``report`` and ``compare`` read of a run."""
    return write_run_folder(
        folder,
        {"seed": 1, "scorer": {"name": "dot"}, **config},
        {"test_per": per, "train_seconds": 67.0},
        curve="step,valid_per\n11,31.0\n",
        readme="# a run\n",
    )


def bomb(levels: int, width: int) -> str:
    """Each level is ``width`` times the one before: ``width ** levels`` values in a few hundred bytes."""
    lines = [f"level0: &l0 [{', '.join('x' * width)}]"]
    lines += [f"level{n}: &l{n} [{', '.join([f'*l{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


def nest_lists(count: int) -> str:
    return "[" * count + "]" * count


def info_text(**facts: Any) -> str:
    return json.dumps({"format": 1, "status": "finished", **facts})


# The file of a run, its content, and the message.
FILES: dict[str, tuple[str, str | bytes, str]] = {
    "aliases": ("config.yaml", bomb(9, 9), "config.yaml:2: an alias is not read"),
    "a name twice": (
        "config.yaml",
        "task: {name: g2p}\ntask: {name: qa}\n",
        "config.yaml:2: not valid YAML: task is wri",
    ),
    "an alias of itself": ("config.yaml", "a: &a [*a]\n", "config.yaml:1: an alias is not read"),
    "brackets in YAML": ("config.yaml", f"a: {nest_lists(100_000)}", "config.yaml:1: nested more than 50 times"),
    "indents in YAML": ("config.yaml", "".join(" " * n + "a:\n" for n in range(999)), "nested more than 50 times"),
    "a long number in YAML": ("config.yaml", "seed: " + "9" * 9999, "config.yaml:1: not valid YAML: a number of 9,999"),
    "base sixty": ("config.yaml", "seed: 1" + ":59" * 9999, "config.yaml:1: not valid YAML: a number of 29,998"),
    "a tag": ("config.yaml", "seed: !!python/object/apply:os.system [exit]", "config.yaml:1: not valid YAML"),
    "a set": ("config.yaml", "seed: !!set {a, b}", "config.yaml: holds a set, which is no plain value"),
    "a key that is no text": ("config.yaml", "1: 2", "config.yaml: holds the key 1, which is no text"),
    "a part that is a word": (
        "config.yaml",
        "scorer: dot",
        "config.yaml: scorer: expected a name and options, found 'do",
    ),
    "a list": ("config.yaml", "- 1", "config.yaml:1: expected names with values, found a list"),
    "a large file": ("config.yaml", "a: " + "x" * MAX_FILE_BYTES, "config.yaml: larger than 4 MiB"),
    "brackets in JSON": ("run.json", nest_lists(100_000), "run.json: nested more than 50 times"),
    "some brackets": ("run.json", info_text(a=json.loads(nest_lists(60))), "run.json: nested more than 50 times"),
    "a long number": ("run.json", f'{{"format": {"9" * 9999}}}', "run.json: holds a number of more than 64 bits"),
    "a large number": ("run.json", f'{{"format": 1, "steps": {2**64}}}', "run.json: holds a number of more than 64"),
    "half of a pair": ("run.json", '{"format": 1, "name": "\\ud800"}', "run.json: holds half of a surrogate pair"),
    "bytes": ("run.json", b"\xff\xfe", "run.json:1: not UTF-8"),
    "a name that is a list": ("run.json", info_text(name=[1]), "run.json: name: expected a text, found [1]"),
    "overrides": ("run.json", info_text(overrides=[1]), "run.json: overrides: expected a list of texts"),
    "uploads": ("run.json", info_text(uploads=["x"]), "run.json: uploads: expected names with values, found ['x']"),
    "a list of seeds": ("config.yaml", "seed: [1]", "config.yaml: seed=[1]: expected a whole number"),
    "a metric": ("run.json", info_text(monitor={}), "run.json: monitor: expected a text"),
    "true": ("run.json", info_text(format=True), "run.json: format must be a whole number"),
    "results": ("results.json", '{"test_per": "seven"}', "results.json: test_per: expected a number, found a str"),
    "intervals": ("results.json", '{"intervals": [1, 2]}', "results.json: intervals: expected names with values"),
    "an interval": (
        "results.json",
        '{"test_per": 7, "intervals": {"test_per": [6, null]}}',
        "results.json: test_per: expected 2 numbers, found [6, None]",
    ),
    "a baseline": ("results.json", '{"baselines": {"naive": 7}}', "results.json: naive: expected names with values"),
    "a difference": (
        "results.json",
        '{"baselines": {"naive": {"test_mse": [1, 2]}}}',
        "results.json: test_mse: expected 3 numbers, found [1, 2]",
    ),
    "a signature": ("results.json", '{"signatures": {"bleu": 7}}', "results.json: signatures: bleu: expected a text"),
    "NaN": ("results.json", '{"test_per": NaN}', "results.json: holds the number nan, where numbers are finite"),
    "infinity": ("results.json", '{"test_per": -Infinity}', "results.json: holds the number -inf, where numbers are"),
    "a large exponent": ("run.json", '{"format": 1, "steps": 1e999}', "run.json: holds the number inf, where numbers"),
    "infinity in YAML": ("config.yaml", "seed: .inf", "config.yaml: holds the number inf, where numbers are finite"),
    "nested results": ("results.json", '{"test_per": [1]}', "results.json: test_per: expected a number, found a list"),
}


@pytest.fixture
def three(work_folder):
    """Two good runs, and one for a test to break."""
    write_run("multirun/best", 6.0)
    write_run("multirun/good", 7.0, scorer={"name": "mlp"})
    return write_run("multirun/broken")


def left_out(command: Command, message: str, *names: str) -> None:
    """Commands that read many runs, ``names`` of the three, say one line about the broken one, and show the others."""
    folders = sorted(map(str, Path("multirun").iterdir()))
    for words in (["runs"], ["report", "multirun"], ["compare", *folders]):
        if names and words[0] not in names:
            continue
        answer = command(*words)
        assert answer.code == 0, answer.err
        (line,) = answer.err.splitlines()
        assert line.startswith("attnx: left out: multirun/broken/")
        assert message in line
        assert len(line) < 250
        shown = Path("multirun/report.md").read_text(encoding="utf-8") if words[0] == "report" else answer.out
        assert ("2 finished, 1 unreadable" in shown) if words[0] == "report" else ("good" in shown and "best" in shown)
        for file in Path("multirun").glob("report.*"):
            file.unlink()


@pytest.mark.parametrize(("name", "content", "message"), FILES.values(), ids=FILES)
def test_an_unreadable_run_is_left_out(name, content, message, three, command):
    (three / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    left_out(command, message, "runs")


@pytest.mark.parametrize("name", ["config.yaml", "results.json"])
def test_special_files_are_not_opened(name, three, command):
    """A pipe without a writer, an endless device, a link to itself, a folder."""
    file = three / name
    for message, make in {
        "not a plain file": lambda: os.mkfifo(file),
        "not a plain file ": lambda: file.symlink_to("/dev/zero"),
        "cannot be read: Too many levels": lambda: file.symlink_to(name),
        "no such file": lambda: file.symlink_to("nowhere"),
        "cannot be read: Is a directory": file.mkdir,
    }.items():
        file.unlink()
        make()
        left_out(command, f"{name}: {message.strip()}")
        if file.is_dir() and not file.is_symlink():
            file.rmdir()
            file.touch()


@pytest.mark.parametrize(
    "content",
    [
        "step,valid_per\n" + "9" * 5000 + ",31\n",
        "step,valid_per\n11," + "9" * 200_000 + "\n",
        "step,valid_per\n11,inf\n13,nan\n17,\0\n\n,\n",
        "",
    ],
    ids=["a long step", "a long cell", "no numbers", "empty"],
)
def test_malformed_curves_are_tolerated(content, three, command):
    """They are left out, or the run is, with a line."""
    (three / "results.json").unlink()
    (three / "metrics.csv").write_text(content, encoding="utf-8")
    for words in (["runs"], ["runs", "--json"], ["report", "multirun"]):
        answer = command(*words)
        assert answer.code == 0, answer.err
        assert all(line.startswith("attnx: left out: multirun/broken/") for line in answer.err.splitlines())


def test_a_time_out_of_range_is_no_time(three, succeed):
    (three / "run.json").write_text(info_text(created="0001-01-01T00:00:00+14:00"), encoding="utf-8")
    succeed("runs")


def test_an_unreadable_job_is_left_out_of_its_sweep(work_folder, command):
    jobs = [write_run(f"multirun/sweep/{number}", 6.0 + number) for number in range(3)]
    job_entries = [{"index": n, "overrides": [f"scorer={name}"], "status": "finished"} for n, name in enumerate("abc")]
    record = {"format": 1, "command": "attnx -m", "overrides": [], "status": "finished", "jobs": job_entries}
    Path("multirun/sweep/sweep.json").write_text(json.dumps(record))
    (jobs[1] / "config.yaml").write_text(bomb(9, 9))
    answer = command("report", "multirun/sweep")
    assert answer.code == 0
    assert answer.err == "attnx: left out: multirun/sweep/1/config.yaml:2: an alias is not read; repeat its value\n"
    assert "2 finished, 1 unreadable" in Path("multirun/sweep/report.md").read_text()


@pytest.mark.parametrize(
    ("fields", "job", "message"),
    [
        ({"max_parallel": 0}, {}, "max_parallel is no number of jobs"),
        ({"command": 7}, {}, "command is not a text, or plugins are no mapping"),
        ({}, {"index": "../../etc"}, "job 0 has the index '../../etc'"),
        ({}, {"overrides": "scorer=dot"}, "overrides are 'scorer=dot', not a list of words"),
        ({}, {"best": "low"}, "best of job 0 is not a number"),
        ({}, {"error": {}}, "error of job 0 is not a text"),
        ({}, {"seconds": None}, "attempts or seconds of job 0 is not a number"),
        ({}, {"attempts": None}, "attempts or seconds of job 0 is not a number"),
    ],
)
def test_a_sweep_with_wrong_types_is_left_out(fields, job, message, work_folder, command):
    write_run("multirun/good")
    Path("multirun/sweep").mkdir()
    record = {"format": 1, "command": "", "overrides": [], "jobs": [{"index": 0, "overrides": [], **job}], **fields}
    Path("multirun/sweep/sweep.json").write_text(json.dumps(record))
    answer = command("report", "multirun")
    assert answer.code == 0
    assert (
        answer.err == f"attnx: left out: multirun/sweep/sweep.json: damaged ({message}); start over with fresh=true\n"
    )


def test_a_comparison_needs_a_readable_run(three, command):
    """With the first reason; one run has nothing to be compared with."""
    for name in ("broken", "good"):
        Path(f"multirun/{name}/config.yaml").write_text(bomb(9, 9))
    for words in (["compare", "multirun/best", "multirun/broken"], ["report", "multirun/broken", "multirun/good"]):
        answer = command(*words)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == "attnx: multirun/broken/config.yaml:2: an alias is not read; repeat its value\n"


def test_a_date_stays_a_text(tmp_path):
    (tmp_path / "x").write_text("name: 2031-03-17")
    assert read_yaml(tmp_path / "x") == {"name": "2031-03-17"}


@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1])
def test_files_are_read_to_a_depth_limit(depth, tmp_path):
    """And no deeper."""
    (tmp_path / "x").write_text(nest_lists(depth))
    for read in (read_json, read_yaml):
        if depth == MAX_DEPTH:
            assert str(read(tmp_path / "x")) == nest_lists(depth)
        else:
            with pytest.raises(UserError, match="nested more than 50 times"):
                read(tmp_path / "x")


@pytest.mark.parametrize("text", ["!!int x", "!!int 0x_", "!!int ''", "!!float x", "!!bool x"])
def test_a_text_with_the_tag_of_a_number_is_reported(text, tmp_path):
    (tmp_path / "x").write_text(f"a: 5\nb: {text}")
    with pytest.raises(UserError, match="x: not valid YAML: "):
        read_yaml(tmp_path / "x")


def test_a_pipe_as_a_lock_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "run.lock")
    assert not is_lock_held(tmp_path / "run.lock")
    assert not is_lock_left(tmp_path / "run.lock")


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "there.json").write_text("[7]")
    (tmp_path / "here.json").symlink_to("there.json")
    assert read_json(tmp_path / "here.json") == [7]


@pytest.mark.parametrize(("read", "name"), [(read_points, POINTS_FILE), (read_test_series, TEST_SERIES)])
def test_damaged_saved_sources_are_reported(read, name, tmp_path):
    (tmp_path / name).write_text("no arrays", encoding="utf-8")
    with pytest.raises(UserError, match=f"{name}: is damaged, or no file of NumPy's arrays"):
        read(tmp_path)


def test_the_unpacked_size_of_arrays_is_limited(tmp_path, monkeypatch):
    """Told from the file's table of contents; also what claims a size that no memory has."""
    np.savez_compressed(tmp_path / "zeros.npz", a=np.zeros(100_000))
    assert (tmp_path / "zeros.npz").stat().st_size < 2000
    assert read_arrays(tmp_path / "zeros.npz")["a"].shape == (100_000,)
    packed_bytes = (tmp_path / "zeros.npz").read_bytes()
    (tmp_path / "flipped.npz").write_bytes(
        packed_bytes[:100] + bytes(255 - byte for byte in packed_bytes[100:140]) + packed_bytes[140:]
    )
    with pytest.raises(UserError, match=r"flipped\.npz: is damaged"):
        read_arrays(tmp_path / "flipped.npz")
    monkeypatch.setattr(bounded_files, "MAX_UNPACKED_BYTES", 100_000)
    with pytest.raises(UserError, match=r"zeros.npz: unpacks to 800,128 bytes"):
        read_arrays(tmp_path / "zeros.npz")
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**17},), }}"
    with zipfile.ZipFile(tmp_path / "claims.npz", "w") as packed:
        packed.writestr("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head) + 1) + head.encode() + b"\n")
    np.savez(tmp_path / "objects.npz", a=np.array([{}]))
    (tmp_path / "text.npz").write_text("no arrays")
    for name in ("claims", "objects", "text"):
        with pytest.raises(UserError, match=rf"{name}\.npz: is damaged, or no file of NumPy's arrays"):
            read_arrays(tmp_path / f"{name}.npz")


def test_a_damaged_array_is_reported(tmp_path):
    """One that is missing, a pipe, empty, text, cut short, of Python objects, or larger than its file."""
    np.save(tmp_path / "complete.npy", np.arange(12.0).reshape(3, 4))
    assert read_array(tmp_path / "complete.npy").tolist() == np.arange(12.0).reshape(3, 4).tolist()
    content = (tmp_path / "complete.npy").read_bytes()
    os.mkfifo(tmp_path / "pipe.npy")
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "text.npy").write_bytes(b"abc")
    (tmp_path / "short.npy").write_bytes(content[:-8])
    (tmp_path / "huge.npy").write_bytes(
        content.replace(b"(3, 4), }", b"(3000000000000, 4), }").replace(b" " * 12, b"", 1)
    )
    for name in ("missing", "pipe", "objects", "empty", "text", "short", "huge"):
        with pytest.raises(UserError, match=rf"{name}\.npy: "):
            read_array(tmp_path / f"{name}.npy")


def test_numbers_that_are_not_finite_are_written_as_null(tmp_path):
    write_json(tmp_path / "x.json", {"a": [7.5, float("nan"), (float("inf"),)], "b": {"c": -float("inf"), "d": "nan"}})
    assert read_json(tmp_path / "x.json") == {"a": [7.5, None, [None]], "b": {"c": None, "d": "nan"}}


def test_infinite_numbers_of_alignments_and_scales_are_reported(tmp_path):
    file = tmp_path / "007.npz"
    alignment = Alignment(np.ones((3, 2), np.float32), ("a", "b"), ("x", "y", "z"), ("x",))
    arrays = alignment_arrays(alignment)
    np.savez(file, **{**arrays, "num_decoder_states": np.array(np.inf)})
    with pytest.raises(UserError, match=r"007\.npz: not an alignment: cannot convert float infinity to integer"):
        read_alignment(file)
    for name, numbers in (("weights", np.full((3, 2), 1e300)), ("heads", np.full((1, 3, 2), 1e300))):
        np.savez(file, **{**arrays, name: numbers})
        with pytest.raises(UserError, match=rf"007\.npz: {name} has infinite numbers"):
            read_alignment(file)
    for states in (-1, 3):
        np.savez(file, **{**arrays, "num_decoder_states": states})
        with pytest.raises(UserError, match=rf"007\.npz: {states} of its 2 columns cannot be decoder states"):
            read_alignment(file)
    np.savez(file, **{**arrays, "num_decoder_states": 2})
    assert read_alignment(file).source_symbols == ()
    (tmp_path / "scales.json").write_text('{"mean": ["inf"], "scale": [1]}', encoding="utf-8")
    with pytest.raises(UserError, match=r"scales\.json: is not a file of feature scales: a number is not finite"):
        FeatureScaler.load(tmp_path / "scales.json")
