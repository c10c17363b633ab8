"""Names of files in run folders are constants of attnx/runs/layout.py; no other package spells them."""

from __future__ import annotations

import ast
from pathlib import Path

from attnx.runs import layout

HOUSE = Path(__file__).parents[2] / "attnx"
# Sections of results.json are keys, not files.
KEYS = {layout.INTERVALS, layout.BASELINES, layout.SIGNATURES}
FILE_NAMES = {value for name, value in vars(layout).items() if name.isupper() and isinstance(value, str)} - KEYS
# Where the same word is something else than a file of a run folder.
EXCEPTIONS = {
    "cli/commands/__init__.py": {"export": "a command"},
    "cli/commands/dashboard.py": {"wandb": "the logger's name"},
    "cli/commands/evaluate.py": {"plugins": "a key of evaluation.json"},
    "cli/commands/predict/__init__.py": {"alignments": "an option", "plugins": "a key of the request"},
    "cli/commands/runs/__init__.py": {"checkpoints": "an option's value"},
    "cli/commands/runs/prune.py": {"checkpoints": "an option's value"},
    "cli/suggestions.py": {"alignments": "a word that a user may try"},
    "cli/training_args.py": {"plugins": "a flag"},
    "config/groups.py": {"config.yaml": "Hydra's main file in conf/"},
    "export/folder.py": {"export": "an extra of the package"},
    "laws/decoding.py": {"vocabulary": "a module of the model"},
    "loggers/tensorboard.py": {"tensorboard": "the logger's name and its extra"},
    "loggers/wandb.py": {"wandb": "the logger's name"},
    "loggers/wandb_files.py": {"wandb": "W&B's command"},
    "registry/plugin_files.py": {"plugins": "the folder of the user's plug-ins"},
}
FILES = [file for file in sorted(HOUSE.rglob("*.py")) if file.relative_to(HOUSE).parts[0] != "runs"]


def literals(file: Path) -> set[str]:
    """The string constants of a file that equal a file name of run folders."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    } & FILE_NAMES


def test_no_file_name_outside_runs() -> None:
    names = {str(file.relative_to(HOUSE)): literals(file) for file in FILES}
    unexplained = {name: words - set(EXCEPTIONS.get(name, {})) for name, words in names.items()}
    assert not {name: words for name, words in unexplained.items() if words}, "import these from attnx.runs.layout"


def test_every_exception_is_needed() -> None:
    assert {name: set(words) for name, words in EXCEPTIONS.items()} == {
        name: literals(HOUSE / name) for name in EXCEPTIONS
    }
