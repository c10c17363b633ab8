"""Missing and invalid data files are reported at once, with the near miss and the line."""

import gzip
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import attnx
from attnx import registry
from attnx.data.examples import read_pairs
from attnx.data.paths import check_task_files, missing_file_message
from attnx.data.readers.lines import MAX_LINE_BYTES, read_lines
from attnx.data.readers.parallel_corpus import read_parallel
from attnx.data.readers.tsv import PairReader
from attnx.errors import UserError
from attnx.nn.pretrained import load_vectors

MISSING = {
    "task=g2p task.train=god.tsv": "task.train: god.tsv: no such file; did you mean good.tsv?",
    "task=g2p task.train=good.tsv task.valid=Good.tsv": "task.valid: Good.tsv: no such file; did you mean good.tsv?",
    "task=g2p task.train=goods/good.tsv": "no such file; there is no folder goods; did you mean good or",
    "task=g2p task.train=/nowhere/at/all": "/nowhere/at/all: no such file; there is no folder /nowhere/at",
    "task=translation task.train=[a.de,b.em]": "task.train: b.em: no such file; did you mean b.en?",
    "task=sequences task.train=good.tsv task.test=xyzzy": "task.test: xyzzy: no such file in /",
    "task=language_model recipe=attention_rnn task.train=b.en.gz": "b.en.gz: no such file; did you mean b.en",
    "task=forecasting task.file=god.tsv": "task.file: god.tsv: no such file; did you mean good.tsv?",
    f"task=g2p task.train={'a' * 300}": f"task.train: {'a' * 300}: no such file",
    f"task=g2p task.train={'a' * 300}/b": f"{'a' * 300}/b: no such file; there is no folder {'a' * 300} in /",
    "task=qa model=entity task.folder=goo": "task.folder: goo: no such file; did you mean good",
}


@pytest.fixture
def files(work_folder):
    for name in ("good.tsv", "a.de", "b.en"):
        Path(name).write_text("a\tb\n", encoding="utf-8")
    Path("good").mkdir()
    return work_folder


@pytest.mark.parametrize(("words", "message"), MISSING.items())
def test_a_missing_file_suggests_a_near_miss(words, message, files, refuse):
    assert message in refuse(*words.split())


def test_data_checks_import_no_torch(files):
    program = (
        "import sys; from attnx.cli.main import run\n"
        "try: run(['task.train=god.tsv'])\n"
        "except Exception as error: print(error, 'torch' in sys.modules, 'lightning' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output == "task.train: god.tsv: no such file; did you mean good.tsv? False False\n"


def test_every_option_that_names_files_is_checked():
    """Options of tasks that are texts, or lists of them, are files or are known not to be."""
    remaining = {"tokenizer", "languages", "columns", "dataset", "entities", "target_columns", "known_columns"}
    remaining |= {"time_column", "group_column", "step_names", "target_step_names", "sizes", "split", "statements"}
    for name in registry.names("task"):
        part = registry.describe("task", name)
        texts = {
            option.name for option in part.options if "str" in option.annotation and "Literal" not in option.annotation
        }
        files = set(part.declarations.get("data_files", ()))
        # The test of pointing is the sizes of problems, that of stories may be their lengths, as those of probes are.
        no_files = {"pointing": {"test"}, "qa": {"test"}, "probe": {"test", "length"}}
        assert texts - remaining - no_files.get(name, set()) == files, name


def test_a_pattern_of_files_is_left_to_the_task(files):
    check_task_files({"name": "g2p", "train": "low/*_train.tsv", "valid": None, "test": None})


def test_lengths_of_test_stories_are_no_files(files):
    for test in ("5-40", [5, 40], 40):
        task = attnx.compose(["task=qa", "model=entity", "task.data=world_model", f"task.test={test}"])["task"]
        check_task_files(task)
        assert task["test"] == test


def test_suggestions_read_a_limited_number_of_names(tmp_path, monkeypatch):
    (tmp_path / "good.tsv").touch()
    monkeypatch.setattr("attnx.data.paths.MAX_NAMES", 0)
    assert missing_file_message(tmp_path / "god.tsv") == f"{tmp_path / 'god.tsv'}: no such file"


@pytest.mark.parametrize("header", ["word\tpronunciation", "Word\tPhones 1\tPhones 2", "source\ttarget"])
@pytest.mark.parametrize(
    "read",
    [read_pairs, lambda path: list(read_parallel([path])), lambda path: PairReader("words", "words").read(path)],
    ids=["words", "sentences", "sequences"],
)
def test_a_header_is_not_read(header, read, tmp_path):
    path = tmp_path / "some.tsv"
    data = [f"a{n} b\tc{n} d" for n in range(3)]
    if header.count("\t") == 2:
        data = [f"{line}\te f" for line in data] if read is read_pairs else data
    for blank_lines in range(2):
        lines = "\n".join([header, *data])
        path.write_text(blank_lines * "\n" + f"{lines}\n", encoding="utf-8-sig")
        assert len(list(filter(None, read(path)))) == 3


@pytest.mark.parametrize(
    "first", ["word\tW ER D", "source\tS AO R S", "text\tdas Wort", "id\t7", "wort\tword", "labels\tL EY B AH L Z"]
)
def test_data_starting_with_a_header_word_are_read(first, tmp_path):
    """Nor is a line of such words that is not the first."""
    path = tmp_path / "some.tsv"
    path.write_text(f"{first}\nletter\ttext\n", encoding="utf-8")
    assert len(read_pairs(path)) == 2
    assert len(list(read_parallel([path]))) == 2


@pytest.mark.parametrize("content", [b"a\tb\nc\0\td\n", "a\tb\nc\td\n".encode("utf-16-le")], ids=["NUL", "UTF-16"])
def test_nul_bytes_are_refused(content, tmp_path):
    path = tmp_path / "some.tsv"
    path.write_bytes(content)
    place = "2: byte 2" if b"c\0\t" in content and content[1] == 9 else "1: byte 2"
    with pytest.raises(UserError, match=f"some.tsv:{place} of the line is NUL; expected a text file"):
        read_pairs(path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_line_of_many_bytes_is_refused(suffix, tmp_path):
    """And is not held in memory: 100 MB of it take less than a tenth of that."""
    path = tmp_path / f"some.tsv{suffix}"
    with gzip.open(path, "wb", compresslevel=1) if suffix else path.open("wb") as file:
        file.write(b"a\tb\n")
        for _ in range(100):
            file.write(b"word " * 200_000)
        file.write(b"\nc\td\n")
    original = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(
        UserError, match=r"some.tsv(.gz)?:2: a line of more than 1,048,576 bytes; .*: 'word word .*\.\.\.'"
    ) as refused:
        read_pairs(path)
    assert len(str(refused.value)) < 250 + len(str(tmp_path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - original < 10_000


def test_a_line_of_the_maximal_length_is_read(tmp_path):
    path = tmp_path / "some.txt"
    path.write_bytes(b"x" * (MAX_LINE_BYTES - 1) + b"\n" + b"y" * MAX_LINE_BYTES)
    assert [len(line) for _, line in read_lines(path)] == [MAX_LINE_BYTES - 1, MAX_LINE_BYTES]


def test_an_endless_line_is_not_read_to_its_end():
    with pytest.raises(UserError, match=r"^/dev/zero:1: a line of more than 1,048,576 bytes"):
        list(read_lines(Path("/dev/zero")))


def test_a_pipe_can_be_read(work_folder, command):
    """As in ``task.train=<(cut -f1,3 words.tsv)``."""
    os.mkfifo("pipe")
    check_task_files({"name": "g2p", "train": "pipe"})


def test_a_pipe_that_a_program_writes_to_is_read(work_folder):
    os.mkfifo("pipe")
    with subprocess.Popen(["sh", "-c", "printf 'a\\tb\\n' > pipe"]):
        assert list(read_lines(Path("pipe"))) == [(1, "a\tb")]
    with subprocess.Popen(["printf", "a\\tb\\n"], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert list(read_lines(Path(f"/dev/fd/{writer.stdout.fileno()}"))) == [(1, "a\tb")]


def test_a_pipe_is_not_read_where_a_file_is_needed(work_folder):
    """Opening it would wait for a writer."""
    os.mkfifo("pipe.gz")
    with pytest.raises(UserError, match=r"^pipe.gz: is a pipe"):
        list(read_lines(Path("pipe.gz")))
    embedding = torch.nn.Embedding(3, 2)
    with pytest.raises(UserError, match=r"^pipe.gz: is a pipe"):
        load_vectors(embedding, {"a": 0}, Path("pipe.gz"))
