"""The pages, flags and shell completion of the command, and its output without arguments."""

import os
import pty
import re
import select
import shlex
import subprocess
import sys
from functools import partial
from importlib import metadata
from pathlib import Path

import pytest
import yaml

import attnx
from attnx.cli import main
from attnx.cli.commands import COMMANDS, load_command
from attnx.cli.training_args import TrainingParser
from attnx.config.compose import compose
from attnx.registry.dependencies import require_core_packages
from attnx.sweeps.overrides import expand_sweep

SCOPES = ("encoder_decoder", "global", "history", "local")
PAGES = {"attnx": ["--help"], **{name: [name, "--help"] for name in ("all", *COMMANDS)}}


@pytest.mark.parametrize("arguments", PAGES.values(), ids=PAGES)
def test_every_command_has_its_own_page(arguments, command, succeed, work_folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    output = succeed(*arguments)
    name = arguments[0] if len(arguments) > 1 else ""
    assert output.startswith(f"usage: attnx {name}" if name in COMMANDS else "attnx ")
    for spelling in (f"-h {name}", f"help {name}", f"{name} -h more", f"{name} one -h") if name else ("help", "-h"):
        assert command(*spelling.split()).out == output
    monkeypatch.setenv("COLUMNS", "80")
    narrow = command(*arguments).out
    assert max(map(len, narrow.splitlines())) <= 80
    assert "".join(narrow.split()) == "".join(output.split())
    assert not list(work_folder.iterdir())


def test_the_first_page_fits_a_small_terminal(command):
    """It says what attnx is in five lines, gives three examples, and names every command, and the page on all else."""
    page = command("--help").out
    assert command("help", "").out == command("--help", "").out == page
    lines = page.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    _, about, _, listed, further = page.split("\n\n")
    assert (len(about.splitlines()), page.count("\n  attnx ")) == (5, 3)
    words = [word for line in listed.splitlines()[1:] for word in re.split(r"  +|, ", line.strip())[1:]]
    assert sorted(words) == sorted(COMMANDS)
    assert "attnx --help all" in further


def test_the_examples_of_the_first_page_are_right(command):
    examples = [shlex.split(line)[1:] for line in command("--help").out.splitlines() if line.startswith("  attnx ")]
    for words in examples:
        if words[0] in COMMANDS:
            assert load_command(words[0])[1].parse(words[1:])
        else:
            arguments = TrainingParser().parse(words)
            assert expand_sweep(arguments.overrides).jobs if arguments.multirun else compose(arguments.overrides)


def test_the_complete_page_names_every_command_and_flag_and_fits_a_terminal(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    page = command("--help", "all").out
    assert max(map(len, page.splitlines())) <= 80
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", page, re.MULTILINE)
    for flag in TrainingParser().flags:
        assert re.search(rf"(?<![\w-]){flag}\b", page)
    assert 'eval "$(attnx -sc install=bash)"' in page


def test_the_options_of_a_launcher_are_shown(command):
    shown = yaml.safe_load(command("--cfg", "hydra", "-p", "hydra.launcher", "hydra/launcher=slurm").out)
    assert (shown["cluster"], shown["timeout_min"]) == ("slurm", 60)


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_printed(flag, command):
    assert command(flag).out == f"attnx {attnx.__version__}\n"


def test_without_arguments_the_default_experiment_is_announced(command, monkeypatch):
    monkeypatch.setattr(main, "train_one", lambda *_: print("training") or 0)
    first, *remaining = command().out.splitlines()
    assert "the default composition, task=g2p scorer=additive scope=global normalizer=softmax" in first
    assert "attnx list shows the choices" in first
    assert remaining == ["training"]
    assert command("seed=2").out == "training\n"


# Hydra gets completions as in bash: the line so far is in the environment.
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("attnx sco", {"scorer=", "scorer.", "scope=", "scope."}),
        ("attnx +sco", {"+scorer=", "+scorer.", "+scope=", "+scope."}),
        ("attnx +scope=", {f"+scope={name}" for name in SCOPES}),
        ("attnx ++scope=l", {"++scope=local"}),
        ("attnx +scorer=additive -m +scope=", {f"+scope={name}" for name in SCOPES}),
        ("attnx +scope=local scope.wi", {"scope.window="}),
        ("attnx scorer=mlp scorer.", {"scorer.activation=", "scorer.depth=", "scorer.hidden_sizes."}),
        ("attnx query=[token, sco", set()),  # no line that could be read
        ("attnx +recipe=bah", {"+recipe=bahdanau"}),
        ("attnx re", {"readout=", "readout.", "recipe=", "resume", "report"}),
        ("attnx scope=local re", {"readout=", "readout.", "recipe="}),
        ("attnx --c", {"--cfg", "--config-dir"}),
        ("attnx --ve", {"--verbose", "--version"}),
        ("attnx list multi", {"multiplicative", "multi30k_de_en", "multi30k_transformer"}),
        ("attnx data g", {"get"}),
        ("attnx --help re", {"resume", "report"}),
        ("attnx help a", {"all"}),
        ("attnx data get sig", {"sigmorphon2018", "sigmorphon2020", "sigmorphon2023"}),
        ("attnx resume m", set()),  # a folder, which the shell completes
        ("attnx predict --nb", {"--nbest"}),
        ("attnx plot multirun/runs/first --for", {"--format"}),
    ],
)
def test_a_shell_completes_words(line, offered, succeed, monkeypatch):
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    output = succeed("-sc", "query=bash")
    assert set(output.split()) == offered


@pytest.mark.parametrize(("shell", "between"), [("zsh", " "), ("fish", "\n")])
def test_completion_follows_each_shell(shell, between, command, monkeypatch):
    monkeypatch.setenv("COMP_LINE", "attnx +scope=")
    assert command("-sc", f"query={shell}").out == between.join(f"+scope={name}" for name in SCOPES) + "\n"


def test_bash_completes(work_folder):
    """An interactive bash in a terminal, to which someone types, with the tabulator where others would look it up."""
    shim = work_folder / "attnx"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m attnx "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    (work_folder / "multirun").mkdir()
    path = f"{work_folder}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PS1": "READY>", "TERM": "dumb"}
    lead, follow = pty.openpty()
    bash = ["bash", "--norc", "--noprofile", "-i"]
    with subprocess.Popen(bash, stdin=follow, stdout=follow, stderr=follow, env=environment, cwd=work_folder) as shell:
        os.close(follow)
        try:
            until(lead, "READY>")
            for typed, completed in (
                ('eval "$(attnx -sc install=bash)"; echo installed\n', "\ninstalled"),
                ("attnx +scorer=additive +scope=l\t", "+scope=local"),
                (" scope.wi\t", "scope.window="),
                ("5\x15attnx res\t", "attnx resume"),
                (" mul\t", "multirun"),
            ):
                os.write(lead, typed.encode())
                until(lead, completed)
        finally:
            shell.kill()
            os.close(lead)


@pytest.mark.parametrize("words", [["list"], ["--help", "all"], ["--cfg", "job"]])
def test_output_that_nobody_reads_is_no_mistake(words, work_folder):
    """As in ``attnx list | head -1``."""
    command = [sys.executable, "-m", "attnx", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 1


def until(terminal: int, expected: str) -> None:
    """Read what a terminal shows, up to what is expected."""
    shown = ""
    while expected not in shown:
        assert select.select([terminal], [], [], 120)[0], f"{expected!r} does not come after {shown!r}"
        shown += os.read(terminal, 1).decode(errors="replace")


@pytest.mark.parametrize(
    ("words", "message"), [(["resume", "one", "e"], "takes no argument 'e'"), (["stats"], "needs RUN")]
)
def test_an_argument_too_many_or_too_few_is_named(words, message, refuse, monkeypatch):
    """Also where another argument ends alike; without colors, which Python 3.14 has for what is quoted."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert refuse(*words).startswith(f"attnx: attnx {words[0]} {message}; write attnx {words[0]} ")


@pytest.mark.parametrize("words", [("scorer=dot",), ("runs",), ("list",)])
def test_a_deleted_folder_is_no_place_to_work(words, command, work_folder, monkeypatch):
    (work_folder / "gone").mkdir()
    monkeypatch.chdir("gone")
    (work_folder / "gone").rmdir()
    answer, message = command(*words), "the current folder has been deleted; change to another one"
    assert (answer.code, answer.err) == (2, f"attnx: {message}\n")
    build = partial(attnx.attention.build, query_size=3, memory_size=5)
    for call in (attnx.compose, build, partial(attnx.report, "a")):
        with pytest.raises(attnx.UserError, match=f"^{message}$"):
            call()


@pytest.mark.parametrize("words", [("-c", "import attnx; attnx.fit"), ("-m", "attnx"), ("-m", "attnx", "runs")])
@pytest.mark.parametrize(
    ("requirement", "error"),
    [
        ("torch>=2.7", "attnx needs torch 2.7 or newer, and this is 2.6.0+cu124"),
        ("hydra-core<1.5,>=1.3.9", "attnx needs hydra-core 1.3.9 or newer, and this is 1.3.8"),
        ("attention-please>=1", "attnx needs attention-please, which is not installed"),
    ],
)
def test_a_core_package_that_is_missing_or_too_old_is_named(words, requirement, error, work_folder):
    """Before it is imported; help does not look."""
    answer = python(words, requirement, work_folder)
    assert (answer.returncode, answer.stdout) == (2 if words[0] == "-m" else 1, "")
    assert answer.stderr.splitlines()[-1].endswith(
        f": {error}: in the clone of attnx, pip install -c constraints.txt -e ."
    )
    assert answer.stderr.count("\n") == 1 or words[0] == "-c"
    assert python(("-m", "attnx", "--help"), requirement, work_folder).returncode == 0


def test_a_floor_for_another_python_is_not_asked_for(monkeypatch):
    requirements = ["torch>=2.7", "torch>=99; python_version >= '3.99'"]
    monkeypatch.setattr(metadata, "requires", lambda name: requirements)
    require_core_packages()


def python(words: tuple[str, ...], requirement: str, work_folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python where attnx has one requirement, and where torch is too old and cannot be imported."""
    folder = work_folder.parent / "packages"
    for name, version in {"attnx": "0.1.0", "torch": "2.6.0+cu124", "hydra_core": "1.3.8"}.items():
        information = folder / f"{name}-{version}.dist-info"
        information.mkdir(parents=True, exist_ok=True)
        text = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nRequires-Dist: {requirement}\n"
        (information / "METADATA").write_text(text, encoding="utf-8")
    (folder / "torch.py").write_text("raise ImportError('too old')\n", encoding="utf-8")
    path = os.pathsep.join([str(folder), str(Path(attnx.__file__).parents[1])])
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": path},
        cwd=work_folder,
        capture_output=True,
        text=True,
        check=False,
    )
