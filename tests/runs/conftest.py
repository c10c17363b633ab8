"""Fixtures of complete runs: an invented language, small sizes, the command, and a clean registry."""

import atexit
import csv
import gzip
import importlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from rich.console import Console

from attnx.cli import main
from attnx.config.compose import compose
from attnx.errors import Interrupted
from attnx.files.process import ChildProcess
from attnx.inference.load import TrainedRun
from attnx.inference.model_cost import ModelCost
from attnx.inference.trace_decoding import open_tracer
from attnx.registry import source_scan
from attnx.reports.pages.decoding_trace import ExampleTrace
from attnx.runs.alignments import Alignment, read_saved_alignments
from attnx.sweeps import session
from attnx.sweeps.processes import ForkServerProcesses
from attnx.sweeps.session import SweepSession

# Each letter has one sound, so a pronunciation is a rule of its letters.
SOUNDS = {"a": "AA", "b": "B", "d": "D", "e": "EH", "k": "K", "s": "S"}
SMALL = [
    "task.train=words.tsv",
    "task.holdout=0.15",
    "model.embedding_dim=5",
    "encoder.hidden_size=7",
    "decoder.hidden_size=11",
    "trainer.batch_size=8",
    "trainer.max_steps=5",
    "trainer.num_validations=2",
]


PARTS = {"train": range(31), "valid": range(31, 36), "test": range(36, 43)}

# Runs command lines in one process, which must not have imported torch at the end of any line.
LINES_PROGRAM = """\
import contextlib, functools, io, json, os, shlex, sys
from importlib import metadata
from attnx.cli import main

# As in the tests' own process, what is installed is read once.
metadata.version, metadata.requires = functools.cache(metadata.version), functools.cache(metadata.requires)

for line in json.load(sys.stdin):
    before, err, out = sorted(os.walk(".")), io.StringIO(), io.StringIO()
    try:
        sys.argv = ["attnx", *shlex.split(line)]
    except ValueError:
        sys.argv = ["attnx", line]
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        try:
            main.main()
        except SystemExit as ended:
            code = ended.code
        except BaseException as escaped:
            code = repr(escaped)
    loaded = sorted({"torch", "lightning"} & set(sys.modules))
    wrote = sorted(os.walk(".")) != before
    print(json.dumps({"code": code, "err": err.getvalue(), "out": out.getvalue(), "wrote": wrote, "loaded": loaded}))
"""

# Lets no run of a process draw, nor count its operations unless a file in its folder asks for it: for runs this small
# it takes longer than all the rest.
NO_PICTURES = """\
import importlib.abc, importlib.util, os, sys

def undraw(module):
    module.draw_attention = module.draw_curves = module.draw_predictions = lambda folder: []

def uncount(module):
    count = module.count_cost
    module.count_cost = lambda *given: count(*given) if os.path.exists("counted") else module.ModelCost()

CHANGES = {"attnx.reports.build_all": undraw, "attnx.training.train": uncount}

class Changed(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in CHANGES:
            return None
        change = CHANGES.pop(name)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Changed())
"""


# A task for a file of plug-ins: to write strings of two letters from the last to the first.
TASK = '''\
from attnx import registry
from attnx.data.examples import Pair
from attnx.data.splits import split_by_hash
from attnx.registry import PositiveInt, register
from attnx.tasks.contract import SequenceData, SequenceTask


@register("task", "mine")
class Mine(SequenceTask):
    """Reverse all strings of a length over two letters."""

    monitor = "valid_wer"
    maximize = False
    label_smoothing = 0.0

    def __init__(self, length: PositiveInt = 6):
        self.length = length

    def load(self):
        words = [format(number, f"0{self.length}b") for number in range(2**self.length)]
        pairs = [Pair(tuple(word), (tuple(reversed(word)),)) for word in words]
        return SequenceData.of(split_by_hash(pairs, lambda pair: pair.source_text, valid=0.2, test=0.2))

    def metrics(self, tags):
        return {"wer": registry.build("metric", "word_error_rate")}

    def tokenize(self, text, tag=""):
        return tuple(text)

    def detokenize(self, symbols):
        return "".join(symbols)
'''


def invent_words(count: int = 60) -> list[str]:
    """Words of two to five letters, all different: each the one before times 37, modulo a prime, to the base of 6."""
    letters, number, words = list(SOUNDS), 1, []
    while len(words) < count:
        number = number * 37 % 7919
        digits, remaining = "", number
        while remaining:
            remaining, digit = divmod(remaining, len(letters))
            digits += letters[digit]
        if 2 <= len(digits) <= 5 and digits not in words:
            words.append(digits)
    return words


def results(folder: str | Path) -> dict[str, Any]:
    """The results of a run."""
    return json.loads(Path(folder, "results.json").read_text(encoding="utf-8"))


def run_info(folder: str | Path) -> dict[str, Any]:
    """The record of a run."""
    return dict(json.loads(Path(folder, "run.json").read_text(encoding="utf-8")))


def change_info(folder: str | Path, **facts: Any) -> None:
    """Have the record of a run say otherwise."""
    Path(folder, "run.json").write_text(json.dumps({**run_info(folder), **facts}), encoding="utf-8")


def file_contents(folder: str | Path = ".") -> dict[str, bytes]:
    """The files below a folder."""
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write_plug_in(name: str, text: str, folder: str = "plugins") -> Path:
    """Write a file of plug-ins into a folder of the current one; return its absolute path."""
    path = Path(folder, f"{name}.py").absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_lines(name: str, lines: Iterable[str]) -> None:
    """Write lines to a file, which may be packed."""
    data = "".join(f"{line}\n" for line in lines).encode()
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def write_parts(line: Callable[[int], str]) -> list[str]:
    """Write tables of 31 lines to train on, 5 to validate and 7 to test on; return what names them."""
    for part, numbers in PARTS.items():
        write_lines(f"{part}.tsv", map(line, numbers))
    return [f"task.{part}={part}.tsv" for part in PARTS]


def feature_matrix(number: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Two to six steps of three features, the last of which never changes."""
    steps = np.arange(2 + number % 5, dtype=np.float32)
    return np.stack([steps + number, steps * number % 11, np.full_like(steps, 3)], axis=1)


def fork(act: Callable[[], object]) -> int:
    """Do something in a fork of this process; return its number. It ends with 0, with 3 after Ctrl-C, or with 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of pytest-xdist's threads, which the fork lacks
        process = os.fork()
    if process:
        return process
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        act()
        code = 0
    except KeyboardInterrupt:
        code = 3
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def exit_code(process: int) -> int:
    """How a process ended: with which code, or by which signal, negative."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def kill_at(place: Any, name: str, count: int) -> None:
    """Have this process killed as a function is called for that time."""
    called, calls = getattr(place, name), iter(range(1, count + 1))

    def deadly(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return called(*args, **kwargs)

    setattr(place, name, deadly)


def fit_run(overrides: Sequence[str], folder: str, **facts: Any) -> TrainedRun:
    """Make a run from Python without output; ``facts`` change its configuration."""
    from attnx.training.fit import fit

    config = {**composed(tuple(overrides)), **facts, "folder": folder}
    return fit(config, overrides, console=Console(file=io.StringIO()))


def table(path: str | Path) -> list[dict[str, str]]:
    """The rows of a TSV or CSV file with a header."""
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if Path(path).suffix == ".tsv" else {}
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, **dialect))


class Answer(NamedTuple):
    """The output of a command."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def work_folder(tmp_path, monkeypatch, new_parts_are_forgotten):
    """Every test runs in a folder of its own, and the parts it adds are gone after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATTNX_PLUGINS", raising=False)
    return tmp_path


@pytest.fixture(scope="session", autouse=True)
def _packages_are_looked_up_once():
    """What is installed is read from all packages' metadata once, not for each command and trainer of this process."""
    registry = importlib.import_module("lightning.fabric.utilities.registry")
    with pytest.MonkeyPatch.context() as patch:
        for place, name in ((metadata, "version"), (metadata, "requires"), (registry, "entry_points")):
            patch.setattr(place, name, cache(getattr(place, name)))
        yield


@pytest.fixture(autouse=True)
def _uncounted_operations(monkeypatch):
    """No run of this process counts its operations, which takes a fourth of so small a run; test_costs.py does."""
    monkeypatch.setattr("attnx.training.train.count_cost", lambda *_: ModelCost())


@pytest.fixture(scope="session")
def write_words():
    """Write sixty invented words to ``words.tsv`` in a folder."""

    def write(folder: Path) -> Path:
        lines = [f"{word}\t{' '.join(SOUNDS[letter] for letter in word)}\n" for word in invent_words()]
        path = folder / "words.tsv"
        path.write_text("".join(lines), encoding="utf-8")
        return path

    return write


@pytest.fixture
def words(work_folder, write_words):
    """The invented words, in the test's own folder."""
    return write_words(work_folder)


@contextmanager
def without_pictures() -> Iterator[pytest.MonkeyPatch]:
    """No pictures, which take longer than such small runs, until the patch is undone."""
    drawn = importlib.import_module("attnx.reports.build_all")
    with pytest.MonkeyPatch.context() as patch:
        for drawing in ("draw_attention", "draw_curves", "draw_predictions"):
            patch.setattr(drawn, drawing, lambda folder: [])
        # An evaluation asks the task itself.
        patch.setattr("attnx.reports.run.task_declarations.task_drawing", lambda run, what: None)
        yield patch


@pytest.fixture
def no_pictures():
    """No pictures, until its ``undo`` is called."""
    with without_pictures() as patch:
        yield patch


@pytest.fixture(scope="session")
def train_in():
    """Train a run in a folder that several tests copy: ``train_in(home, "scorer=dot", folder="one")``."""

    def train(home: Path, *overrides: str, folder: str, **facts: Any) -> TrainedRun:
        with without_pictures() as patch:
            patch.chdir(home)
            return fit_run(overrides, folder, **facts)

    return train


@pytest.fixture(scope="session")
def no_pictures_folder(tmp_path_factory):
    """A folder for PYTHONPATH with which no process draws."""
    folder = tmp_path_factory.mktemp("undrawn")
    (folder / "sitecustomize.py").write_text(NO_PICTURES, encoding="utf-8")
    return str(folder)


@pytest.fixture
def forked_ranks(no_pictures_folder, monkeypatch):
    """Processes that train together are forks of this one, in spite of pytest-xdist's threads; new ones import for
    seconds, and draw nothing."""
    monkeypatch.setattr(
        importlib.import_module("attnx.training.distributed.launcher"), "can_fork", lambda backend: True
    )
    monkeypatch.setenv("PYTHONPATH", no_pictures_folder)


def become_server(serve: Callable[[], object], connection: int) -> None:
    """Make this fork of the tests' process like a new one, whose jobs neither draw nor count; serve."""
    os.setsid()
    atexit._clear()
    os.closerange(3, connection)
    os.closerange(connection + 1, os.sysconf("SC_OPEN_MAX"))
    sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", buffering=1) for descriptor in (1, 2))
    program: dict[str, Any] = {}
    exec(NO_PICTURES, program)
    for name in program["CHANGES"].keys() & sys.modules.keys():
        program["CHANGES"].pop(name)(sys.modules[name])
    serve()


@pytest.fixture(scope="session")
def server():
    """One server for all sweeps, a fork of this process: what a new one imports takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        start = "attnx.sweeps.processes.spawn"
        patch.setattr(start, lambda call, _, pass_fds: ChildProcess(fork(partial(become_server, call, *pass_fds))))
        server = ForkServerProcesses({})
    while not server.is_ready:  # a fork of this process would hear of it in its place
        server.wait(1.0)
    yield server
    server.connection.close()
    exit_code(server.server.pid)


class ForkedCommand:
    """The command in a fork of this process, used like a Popen: a new process imports for seconds.

    It has a process group of its own, as a terminal gives it.
    """

    def __init__(self, words: Sequence[str], variables: Mapping[str, str], prepare: Callable[[], None]) -> None:
        self.files = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115
        self.returncode: int | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of pytest-xdist's threads, which the fork lacks
            self.pid = os.fork()
        if not self.pid:
            self._run(words, variables, prepare)

    def _run(self, words: Sequence[str], variables: Mapping[str, str], prepare: Callable[[], None]) -> None:
        code: Any = 1
        try:
            os.setpgid(0, 0)
            for descriptor, file in enumerate(self.files, 1):
                os.dup2(file.fileno(), descriptor)
            sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", buffering=1) for descriptor in (1, 2))
            os.environ.update(variables)
            sys.argv = ["attnx", *words]
            prepare()
            main.main()
        except SystemExit as end:
            code = end.code
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def read(self) -> tuple[str, str]:
        """The output and the errors until now; the offset of a file is the fork's."""
        out, err = (os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in self.files)
        return out, err

    def has_ended(self) -> bool:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode is not None

    def communicate(self, timeout: float = 240.0) -> tuple[str, str]:
        """Wait for the end; return the output and the errors."""
        start = time.monotonic()
        while not self.has_ended():
            assert time.monotonic() - start < timeout, self.read()
            time.sleep(0.02)
        return self.read()

    def send_signal(self, number: int) -> None:
        if not self.has_ended():
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process now."""
        self.send_signal(signal.SIGKILL)
        self.communicate()


@pytest.fixture
def shared_server(server, monkeypatch):
    """Sweeps fork their jobs from the one server, which they do not end."""
    monkeypatch.setattr(server, "close", lambda: None)
    monkeypatch.setattr(session, "start_fork_server", lambda environment: server)


@pytest.fixture
def command(monkeypatch, capfd):
    """Give the command line some words, in this process."""

    def give(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["attnx", *words])
        source_scan.scan_files.cache_clear()  # as a process of its own
        with pytest.raises(SystemExit) as ended:
            main.main()
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, out, err)

    return give


@pytest.fixture
def succeed(command):
    """Give the command words, which must end with no message; return its output."""

    def output(*words: str) -> str:
        answer = command(*words)
        assert (answer.code, answer.err) == (0, "")
        return str(answer.out)

    return output


@pytest.fixture
def refuse(command, work_folder):
    """Give the command words that it must refuse in one line, with nothing written; return the line."""

    def refused_line(*words: str) -> str:
        files_before = file_contents(work_folder)
        answer = command(*words)
        assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
        assert answer.err.startswith("attnx: ")
        assert file_contents(work_folder) == files_before
        return str(answer.err)

    return refused_line


@pytest.fixture
def fork_command():
    """Start the command in a fork, with environment variables: ``fork_command("scorer=dot", RANK="0")``.

    ``prepare`` is called in the fork before.
    """
    commands: list[ForkedCommand] = []

    def start(*words: str, prepare: Callable[[], None] = lambda: None, **variables: str) -> ForkedCommand:
        commands.append(ForkedCommand(words, variables, prepare))
        return commands[-1]

    yield start
    for command in commands:
        command.kill()
        for file in command.files:
            file.close()


composed = cache(compose)  # of the many small runs most are of a few compositions


def _sized(*overrides: str, defaults: Sequence[str] = SMALL) -> list[str]:
    given_keys = {override.partition("=")[0] for override in overrides}
    if given_keys >= {"task.valid", "task.test"}:
        given_keys.add("task.holdout")  # nothing is held out
    if "model=transformer" in overrides:
        given_keys |= {"model.embedding_dim", "encoder.hidden_size", "decoder.hidden_size"}
    return [*(default for default in defaults if default.partition("=")[0] not in given_keys), *overrides]


@pytest.fixture(scope="session")
def sized():
    """Put the small sizes, or other ``defaults``, before overrides that do not replace them."""
    return _sized


@pytest.fixture
def run(words, no_pictures):
    """Make a small run from Python: ``run("scorer=dot", folder="a")``; later words win over the small sizes."""
    return lambda *overrides, folder: fit_run(_sized(*overrides), folder)


@pytest.fixture
def trained_configs(monkeypatch):
    """The configurations that commands would have trained."""
    recorded: list[dict[str, Any]] = []
    monkeypatch.setattr(main, "train_one", lambda config, *_: recorded.append(config) or 0)
    return recorded


@pytest.fixture
def swept_configs(monkeypatch, shared_server):
    """The configurations of jobs that a sweep would have trained."""
    recorded: list[dict[str, Any]] = []

    def prune(running: SweepSession, jobs: Iterator[Any]) -> None:
        for job, task in jobs:
            recorded.append(task.config)
            job.status = "pruned"

    monkeypatch.setattr(SweepSession, "run", prune)
    return recorded


@pytest.fixture(scope="module")
def kept_folders(tmp_path_factory):
    """Where folders stand that a test of the module has made, and others copy."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def make_once(kept_folders):
    """Have a folder made by the first test of the module that asks for it by a key, and copied for the next ones."""

    def ensure(key: object, folder: str, make: Callable[[], object]) -> None:
        kept = kept_folders / str(hash(key))
        if kept.exists():
            shutil.copytree(kept, folder)
        else:
            make()
            shutil.copytree(folder, kept)

    return ensure


@pytest.fixture
def run_once(run, make_once):
    """Make a small run as ``run`` does, once in a module for the same words, whose data must be the same, too."""

    def make(*overrides: str, folder: str) -> str:
        make_once(overrides, folder, lambda: run(*overrides, folder=folder))
        return folder

    return make


@pytest.fixture
def at_step(monkeypatch):
    """Do something once, after an optimizer step."""
    from attnx.training.callbacks.progress import ProgressDisplay

    show = ProgressDisplay.on_train_batch_end

    def set_up(step: int, act: Callable[[], object]) -> None:
        actions = [act]

        def acting(self: ProgressDisplay, trainer: Any, *args: Any) -> None:
            show(self, trainer, *args)
            if trainer.global_step == step and actions:
                actions.pop()()

        monkeypatch.setattr(ProgressDisplay, "on_train_batch_end", acting)

    return set_up


@pytest.fixture
def interrupt_at(at_step):
    """Press Ctrl-C after an optimizer step, once or ``times`` times in a row."""

    def press(step: int, times: int = 1) -> None:
        at_step(step, lambda: [signal.raise_signal(signal.SIGINT) for _ in range(times)])

    return press


@pytest.fixture
def whole_and_cut(run, interrupt_at):
    """Train in the folder ``whole``; and in ``cut``, where Ctrl-C comes after a step, once or ``times`` times."""

    def train(*options: str, step: int, times: int = 1) -> None:
        run(*options, folder="whole")
        interrupt_at(step, times)
        with pytest.raises(Interrupted, match="cut"):
            run(*options, folder="cut")

    return train


@pytest.fixture(scope="session")
def run_lines():
    """Run command lines in one process: the code, output, written files and imports of each."""

    def run(lines: Iterable[str], folder: Path) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-c", LINES_PROGRAM],
            input=json.dumps(list(lines)),
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name != "ATTNX_PLUGINS"},
        )
        return dict(zip(lines, map(json.loads, done.stdout.splitlines()), strict=True))

    return run


@pytest.fixture(scope="session")
def assert_one_line():
    """Assert that a mistake gave one line with these phrases and code 2, wrote nothing and imported no torch."""

    def check(answer: dict[str, Any], phrases: Iterable[str]) -> None:
        assert (answer["code"], answer["out"]) == (2, "")
        assert answer["err"].startswith("attnx: ")
        assert answer["err"].count("\n") == 1
        assert answer["err"].endswith("\n")
        for phrase in phrases:
            assert phrase in answer["err"]
        assert not answer["wrote"]
        assert answer["loaded"] == []

    return check


@pytest.fixture(scope="session")
def trained_runs(tmp_path_factory, write_words, train_in):
    """A folder with the words, two runs over them that differ in their seeds, ``one`` and ``two``, and no pictures."""
    home = tmp_path_factory.mktemp("trained")
    write_words(home)
    for seed, name in enumerate(("one", "two"), 1):
        train_in(home, *_sized("trainer.max_steps=150", "optimizer.lr=0.03"), folder=name, seed=seed)
    return home


@pytest.fixture
def runs(trained_runs, work_folder):
    """A copy of those in the test's own folder."""
    shutil.copytree(trained_runs, work_folder, dirs_exist_ok=True)
    return work_folder


@pytest.fixture(scope="session")
def small():
    """The small sizes, for the command line."""
    return list(SMALL)


@pytest.fixture
def weights():
    """The weights in a run's checkpoint."""

    def load(folder: str | Path, which: str = "last") -> dict[str, torch.Tensor]:
        state = torch.load(Path(folder) / "checkpoints" / f"{which}.ckpt", "cpu", weights_only=True)["state_dict"]
        assert state
        return dict(state)

    return load


@pytest.fixture(scope="session")
def saved_traces():
    """The hypotheses of each saved example of a run, and their trace."""

    def trace(folder: str | Path) -> list[tuple[list[Alignment], ExampleTrace]]:
        tracer = open_tracer(folder)
        examples = [list(files.values()) for files in read_saved_alignments(folder)]
        traces = [trace for hypotheses in examples if (trace := tracer(hypotheses)) is not None]
        return list(zip(examples, traces, strict=True))

    return trace


@pytest.fixture(scope="session")
def metric_rows():
    """The rows of a run's metrics.csv, but for its speed."""

    def read(folder: str) -> list[dict[str, str]]:
        rows = table(Path(folder, "metrics.csv"))
        return [{name: text for name, text in row.items() if "second" not in name} for row in rows]

    return read


@pytest.fixture
def same_weights(weights):
    """Whether several runs ended with the same weights, bit by bit."""

    def compare(folders: Sequence[str]) -> bool:
        first, *remaining = [weights(folder) for folder in folders]
        return all(
            first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
            for second in remaining
        )

    return compare
