"""Translation with a corpus that is encoded: the rows of memory, written once, complete or not at all."""

import errno
import gc
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import attnx
from attnx.data import encoded_corpus
from attnx.data.dataset import PairDataset
from attnx.data.examples import Pair
from attnx.data.readers import columns, hugging_face, parallel_corpus
from attnx.data.readers.lines import read_lines
from attnx.data.readers.parallel_corpus import Sentence
from attnx.errors import Interrupted, UserError
from attnx.tasks import translation
from attnx.tasks.contract import SequenceData
from attnx.tasks.translation import Translation
from attnx.training.fit import resume
from tests.refusal import refusal_message
from tests.runs.conftest import exit_code, file_contents, fork, run_info, write_lines

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
    pytest.mark.usefixtures("texts", "few_at_a_time"),
]

WORDS = {"der": "the", "Hund": "dog", "Äpfel": "apples", "läuft": "runs", "rot": "red"}
FILES_OF_PARTS = {"valid": ["va.de", "vb.en"], "test": ["ta.de", "tb.en"]}


def translate(sentence: str, mark: str = "") -> str:
    return " ".join(WORDS[word] + mark for word in reversed(sentence.rstrip(".").split())) + "!"


@pytest.fixture
def texts(work_folder):
    """All 125 sentences of three words, twice the first, in every way that files can be given; a blank and a long one.

    Of the sentences that are judged, one to test on is also there to train on.
    """
    result = [" ".join(words) + "." for words in product(WORDS, repeat=3)]
    lines = [result[0], *result[:107], "rot " * 23 + "."]
    marks = {"xa": "", "yb": "b"}
    sides = {"de": lines, **{tag: [translate(line, mark) for line in lines] for tag, mark in marks.items()}}
    for side in sides.values():
        side.insert(5, " ")
    write_lines("a.de.gz", sides["de"])
    write_lines("b.en", sides["xa"])
    write_lines("b.yb", sides["yb"])
    for tag in marks:
        write_lines(f"{tag}.tsv", map("\t".join, zip(sides["de"], sides[tag], strict=True)))
    write_lines(
        "mixed.tsv", [f"{line}\t{sides[tag][n]}\t{tag}" for n, line in enumerate(lines) for tag in ("xa", "yb")]
    )
    judged = {"v": result[107:112], "t": [result[3], *result[112:]]}
    for part, sentences in judged.items():
        write_lines(f"{part}a.de", sentences)
        write_lines(f"{part}b.en", [translate(line) for line in sentences])
        tagged = [f"{line}\t{translate(line, mark)}\t{tag}" for line in sentences for tag, mark in marks.items()]
        write_lines(f"{part}.tsv", tagged)


@pytest.fixture
def few_at_a_time(work_folder, monkeypatch):
    """Files of any size are encoded, into a folder of the test, some rows at a time."""
    monkeypatch.setattr(translation, "MAX_BYTES_IN_MEMORY", 0)
    monkeypatch.setattr(encoded_corpus, "ROWS_PER_PART", 13)
    for module in (encoded_corpus, hugging_face):  # the compiled kernels stay where they are
        monkeypatch.setattr(module, "cache_folder", lambda name: Path("cache", name))


def task(**options: Any) -> Translation:
    defaults = {"train": ["a.de.gz", "b.en"], "tokenizer": "word", "vocab_size": 61, "max_length": 7, "holdout": 0.1}
    return Translation(**{**defaults, **options})


def in_memory(**options: Any) -> tuple[Translation, SequenceData]:
    """The task, and its data in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translation, "MAX_BYTES_IN_MEMORY", 10**9)
        built = task(**options)
        return built, built.load()


def same_rows(first: PairDataset, second: PairDataset) -> bool:
    """Whether rows are equal, in order."""
    return len(first) == len(second) and all(
        (row.source.tolist(), row.target.tolist(), row.row_index, row.tag)
        == (second_row.source.tolist(), second_row.target.tolist(), second_row.row_index, second_row.tag)
        for row, second_row in ((first[index], second[index]) for index in range(len(first)))
    )


def message(**options: Any) -> str:
    return refusal_message(task(**options).load)


WAYS: dict[str, dict[str, Any]] = {
    "two files": {},
    "two files, parts given": FILES_OF_PARTS,
    "a table": {"train": "xa.tsv", "max_length_ratio": 1.5},
    "a table for each language": {"train": ["xa.tsv", "yb.tsv"], "languages": ["xa", "yb"]},
    "files in step": {"train": ["a.de.gz", "b.en", "b.yb"], "languages": ["xa", "yb"]},
    "one table": {"train": "mixed.tsv", "languages": ["yb", "xa"], "valid": "v.tsv", "test": "t.tsv"},
    "lower case, shared": {"lower": True, "unicode_form": "nfkc", "shared_vocabulary": True, "tokenizer": "bpe"},
    "characters": {"tokenizer": "character", "max_length": 17},
}


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_an_encoded_corpus_equals_one_in_memory(options):
    """Symbols, rows and their order, other splits, tags, notes and fingerprint: when it is written, and when found."""
    plain, expected = in_memory(**options)
    for item in (task(**options), task(**options)):
        data = item.load()
        assert (data.source, data.target, data.tags) == (expected.source, expected.target, expected.tags)
        assert same_rows(data.train_dataset(), expected.train_dataset())
        assert data.train_dataset().fingerprint() == expected.train_dataset().fingerprint()
        assert (data.pairs.valid, data.pairs.test) == (expected.pairs.valid, expected.pairs.test)
        assert data.pairs.train == []
        assert item.notes == plain.notes
        tag = (expected.tags or ("",))[0]
        assert item.tokenize("der  HUND", tag) == plain.tokenize("der  HUND", tag)
    assert "longer than" in plain.notes[0]
    assert len(expected.train_dataset()) > 60
    assert len(list(Path("cache/corpora").iterdir())) == 1


@pytest.mark.parametrize("options", [{}, FILES_OF_PARTS], ids=["held out", "given"])
def test_an_encoded_corpus_is_not_encoded_again(options, monkeypatch):
    """Its training files are only looked at: their names, sizes and times."""
    task(**options).load()
    opened: list[str] = []

    def watch_reads(path: Path) -> Iterator[tuple[int, str]]:
        opened.append(path.name)
        return read_lines(path)

    monkeypatch.setattr(parallel_corpus, "read_lines", watch_reads)
    files_before = file_contents("cache/corpora")
    task(**options, label_smoothing=0.1).load()
    assert sorted(set(opened)) == sorted(name for part in options.values() for name in part)
    assert file_contents("cache/corpora") == files_before


CHANGES: dict[str, dict[str, Any]] = {
    "another tokenizer": {"tokenizer": "character", "max_length": 17},
    "another share": {"holdout": 0.2},
    "a part that is given": {"valid": FILES_OF_PARTS["valid"]},
    "other files": {"train": "xa.tsv"},
    "changed files": {},
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_files_and_options_are_encoded_anew(change):
    """The first corpus stays, too."""
    first = task().load().train_dataset()
    if change == "changed files":
        write_lines("b.en", Path("b.en").read_text(encoding="utf-8").replace("dog", "god").splitlines())
    _, expected = in_memory(**CHANGES[change])
    assert same_rows(task(**CHANGES[change]).load().train_dataset(), expected.train_dataset())
    assert len(list(Path("cache/corpora").iterdir())) == 2
    assert len(first) > 60


def test_a_plug_in_that_changes_encodes_anew(work_folder, monkeypatch):
    """Its own tokenizer is a copy of another one, until a line of it changes."""
    monkeypatch.setattr(translation, "hash_code", lambda kind: "as it was")
    task().load()
    monkeypatch.setattr(translation, "hash_code", lambda kind: "as it is")
    task().load()
    assert len(list(Path("cache/corpora").iterdir())) == 2


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no rows": lambda folder: (folder / "source.ids").unlink(),
    "cut rows": lambda folder: os.truncate(folder / "target.npy", 137),
    "a broken tokenizer": lambda folder: (folder / "source.tokenizer").write_bytes(b"?"),
    "a cut record": lambda folder: os.truncate(folder / "corpus.json", 53),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_corpus_is_encoded_again(damage):
    options = {"train": ["xa.tsv", "yb.tsv"], "languages": ["xa", "yb"]}
    task(**options).load()
    expected = file_contents("cache/corpora")
    (folder,) = Path("cache/corpora").iterdir()
    DAMAGES[damage](folder)
    task(**options).load()
    assert file_contents("cache/corpora") == expected


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no file": ({"train": ["a.de.gz", "nowhere"]}, "nowhere: no such file"),
    "a bad byte, later": ({"train": ["late", "b.en"]}, "late:41: byte 0xe9 at byte 2 of the line is not UTF-8"),
    "out of step": ({"train": ["a.de.gz", "ta.de"]}, "ta.de: has 14 lines, but a.de.gz has 110"),
    "no tab": ({"train": "va.de"}, "va.de:1: no tab"),
    "a wrong language": ({"train": "mixed.tsv", "languages": ["xa", "yc"]}, "mixed.tsv:2: unknown language 'yb'"),
    "no pair": ({"train": "long.tsv", "languages": ["xa", "yb"]}, "no training pair of 'yb' is left: left out "),
    "all too long": ({"max_length": 1}, "no training pair is left: left out"),
    "no part to judge": ({"holdout": 0.0}, "the valid split holds no pairs"),
}


@pytest.mark.parametrize(("options", "reason"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_reported_and_leaves_no_file(options, reason, work_folder):
    mixed = [line for line in Path("mixed.tsv").read_text(encoding="utf-8").splitlines() if line.endswith("xa")]
    write_lines("long.tsv", [*mixed, *(f"der Hund {n}\t{'x ' * 11}\tyb" for n in range(97))])
    Path("late").write_bytes(40 * b"abc\n" + b"a\xe9\n" + 69 * b"abc\n")
    files_before = file_contents()
    assert reason in message(**options)
    assert file_contents() == files_before


def test_a_cache_that_cannot_be_written_is_reported(monkeypatch):
    Path("cache").write_text("")
    assert message().startswith("cache/corpora/")
    assert message().endswith(": cannot be written: File exists; name a folder for the cache with ATTNX_CACHE")


def stop_at(patch: pytest.MonkeyPatch, moment: str, stop: Callable[..., Any]) -> None:
    """Stop as the second part is encoded, or where all is written."""
    if moment == "encoding":
        encode, parts = PairDataset.from_pairs, []

        def stopping(pairs: list[Pair], *options: Any, **named: Any) -> Any:
            parts.append(len(pairs))
            return stop() if len(parts) == 2 else encode(pairs, *options, **named)

        patch.setattr(PairDataset, "from_pairs", stopping)
    else:
        patch.setattr(encoded_corpus, "fsync_files", stop)


@pytest.fixture
def expected(work_folder):
    """The files of a corpus that was written without an interruption."""
    task().load()
    files = file_contents("cache/corpora")
    shutil.rmtree("cache")
    return files


@pytest.mark.parametrize("moment", ["encoding", "finishing"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, OSError])
def test_an_interruption_leaves_nothing(kind, moment, expected, monkeypatch):
    """The next command begins again."""

    def stop(*args: Any) -> None:
        raise kind(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        stop_at(patched, moment, stop)
        with pytest.raises((KeyboardInterrupt, UserError), match="No space left") as caught:
            task().load()
    if kind is OSError:
        assert attnx.errors.exit_code_for(caught.value) == 1
    assert file_contents("cache/corpora") == {}
    task().load()
    assert file_contents("cache/corpora") == expected


@pytest.mark.parametrize("moment", ["encoding", "finishing"])
def test_a_killed_command_leaves_nothing_that_is_taken(moment, expected, monkeypatch):
    """By SIGKILL, without cleanup; the next command begins again, and deletes what was left."""

    def load() -> None:
        stop_at(monkeypatch, moment, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        task().load()

    assert exit_code(fork(load)) == -signal.SIGKILL
    assert [path for path in Path("cache/corpora").iterdir() if path.suffix == ".unfinished"]
    task().load()
    assert file_contents("cache/corpora") == expected


def slow_down(patch: pytest.MonkeyPatch, seconds: float = 0.1) -> None:
    """Encode slowly, and say when that begins."""
    encode = PairDataset.from_pairs

    def slow(pairs: list[Pair], *options: Any, **named: Any) -> Any:
        Path("encoding").touch()
        time.sleep(seconds)
        return encode(pairs, *options, **named)

    patch.setattr(PairDataset, "from_pairs", slow)


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for what happens soon."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_two_commands_at_once_do_not_disturb_each_other(expected, monkeypatch, capfd):
    """The second waits for the first, and encodes nothing; one with other options does not wait."""
    with monkeypatch.context() as patched:
        slow_down(patched)
        first = fork(lambda: task().load())
        wait_for(Path("encoding").exists)
        second, third = fork(lambda: task().load()), fork(lambda: task(vocab_size=67).load())
        assert [exit_code(child) for child in (first, second, third)] == [0, 0, 0]
    printed = capfd.readouterr().err
    assert printed.count("encoding the training corpus, once, into cache/corpora/") == 2
    assert printed.count("another process is writing it; waiting") == 1
    assert file_contents("cache/corpora").items() >= expected.items()
    assert len(list(Path("cache/corpora").iterdir())) == 2


def test_a_command_goes_on_where_another_one_gave_up(expected, monkeypatch):
    """It waited for it."""
    with monkeypatch.context() as patched:
        slow_down(patched)
        first = fork(lambda: task().load())
        wait_for(Path("encoding").exists)
        second = fork(lambda: task().load())
        time.sleep(0.3)
        os.kill(first, signal.SIGKILL)
        assert [exit_code(first), exit_code(second)] == [-signal.SIGKILL, 0]
    assert file_contents("cache/corpora") == expected


def test_files_changed_while_reading_are_reported(monkeypatch):
    encode_rows = translation.encode_rows

    def slowly(*args: Any) -> Any:
        os.utime("b.en", ns=(0, 0))
        return encode_rows(*args)

    monkeypatch.setattr(translation, "encode_rows", slowly)
    assert message() == "task.train: a file has changed while it was read; start again"
    assert file_contents("cache/corpora") == {}


def test_memory_use_is_bounded(monkeypatch):
    """Of 5,003 lines a sample of 17, and a few on their way; then parts of 13 pairs."""
    write_lines("long.tsv", [f"der Hund {number}\tthe dog {number}" for number in range(5003)])
    monkeypatch.setattr(encoded_corpus, "MAX_SAMPLE", 17)
    most = {"reading": 0, "encoding": 0}
    readings: list[str] = []
    encode = PairDataset.from_pairs

    def alive() -> int:
        return sum(type(instance) in (Sentence, Pair) for instance in gc.get_objects())

    def watch_reads(path: Path, *kind: str) -> Iterator[tuple[int, str]]:
        readings.append(path.name)
        for number, line in read_lines(path, *kind):
            if path.name == "long.tsv" and number % 503 == 0:
                most["reading"] = max(most["reading"], alive() - count_before)
            yield number, line

    def watch_parts(pairs: list[Pair], *options: Any, **named: Any) -> Any:
        if pairs[0].source_text.endswith("00"):  # of a part of 13, every 1,300th line
            most["encoding"] = max(most["encoding"], alive() - count_before)
        return encode(pairs, *options, **named)

    gc.collect()
    count_before = alive()
    for module in (parallel_corpus, columns):
        monkeypatch.setattr(module, "read_lines", watch_reads)
    monkeypatch.setattr(PairDataset, "from_pairs", watch_parts)
    data = task(train="long.tsv", **FILES_OF_PARTS).load()
    assert len(data.train_dataset()) == 5003
    assert readings.count("long.tsv") == 1
    judged = 5 + 14
    assert 17 <= most["reading"] <= judged + 17 + 3
    assert judged <= most["encoding"] <= 2 * judged + 2 * 13 + 3  # as sentences and as pairs


def test_too_many_held_out_sentences_are_reported(monkeypatch):
    monkeypatch.setattr(translation, "MAX_HELD_OUT", 3)
    assert message().startswith("task.holdout=0.1 holds out more than 3 sentences, which must fit in memory")
    assert file_contents("cache/corpora") == {}
    assert in_memory()[1].pairs.test


@pytest.mark.skipif(find_spec("datasets") is None, reason="the extra attnx[datasets] is not installed")
def test_the_cache_holds_everything(work_folder, monkeypatch):
    """Also what `datasets` converts; nothing is written elsewhere, neither at home nor in the data set's folder."""
    monkeypatch.undo()
    monkeypatch.chdir(work_folder)
    monkeypatch.setenv("ATTNX_CACHE", str(work_folder / "mine"))
    monkeypatch.setenv("HOME", str(work_folder / "home"))
    rows = [{"de": f"Haus {n % 13} {n}", "en": f"house {n} {n % 7}"} for n in range(101)]
    Path("data").mkdir()
    write_lines("data/train.csv", ["de,en", *(f"{row['de']},{row['en']}" for row in rows)])
    names_before = file_contents().keys()
    for name in ("data", "data/train.csv"):
        Translation(dataset=name, columns=["de", "en"], tokenizer="word", holdout=0.1).load()
    assert {name.split("/")[0] for name in file_contents().keys() - names_before} == {"mine"}
    assert sorted(path.name for path in Path("mine").iterdir()) == ["corpora", "datasets"]


RUN = [
    "task=translation",
    "task.train=[a.de.gz,b.en]",
    "task.tokenizer=word",
    "task.vocab_size=61",
    "task.max_length=7",
]


def test_a_run_gives_equal_results(run, same_weights):
    """Equal weights, scores, notes and fingerprints; a reopened run does not need the cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translation, "MAX_BYTES_IN_MEMORY", 10**9)
        run(*RUN, folder="memory")
    assert not Path("cache").exists()
    run(*RUN, folder="encoded")
    assert same_weights(["memory", "encoded"])
    memory, encoded = run_info("memory"), run_info("encoded")
    for fact in ("data", "notes", "fingerprint"):
        assert memory[fact] == encoded[fact]
    shutil.rmtree("cache")
    assert attnx.open_run("encoded").predict(["der Hund läuft."])


def test_an_interrupted_run_resumes(run, same_weights, interrupt_at):
    """In mid-epoch, with the cache as the run left it, without it, and in memory; other data are not taken for it."""
    overrides = [*RUN, "trainer.max_steps=7"]
    run(*overrides, folder="whole")
    for folder in ("cut", "later", "memory", "never"):
        interrupt_at(3)
        with pytest.raises(Interrupted, match=folder):
            run(*overrides, folder=folder)
    resume("cut")
    shutil.rmtree("cache")
    resume("later")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translation, "MAX_BYTES_IN_MEMORY", 10**9)
        resume("memory")
    assert same_weights(["whole", "cut", "later", "memory"])
    write_lines("b.en", Path("b.en").read_text(encoding="utf-8").replace("dog", "zebra").splitlines())
    with pytest.raises(UserError, match="never: the training data have changed"):
        resume("never")


@pytest.mark.skipif(sys.platform != "linux", reason="forks processes")
def test_two_ranks_learn_the_same_as_one(run, weights, forked_ranks):
    """They open one corpus, which one of them has written."""
    run(*RUN, "trainer.batch_size=12", folder="one")
    shutil.rmtree("cache")
    run(*RUN, "trainer.batch_size=6", "trainer=ddp", "trainer.devices=2", folder="two")
    alone, together = weights("one"), weights("two")
    assert max(float((alone[name] - together[name]).abs().max()) for name in alone) < 1e-5
    assert len(list(Path("cache/corpora").iterdir())) == 1
