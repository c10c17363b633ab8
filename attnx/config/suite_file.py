"""Reads the file of a suite: a protocol by which a mechanism is compared with known ones. Without torch."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from attnx.config.groups import GROUPS, conf_folder
from attnx.config.view import value_text
from attnx.errors import UserError, report_place, suggest
from attnx.files.bounded_files import read_yaml
from attnx.files.parse_number import is_count
from attnx.runs.layout import check_name
from attnx.runs.sweep import SEVERAL_VALUES, reject_repeated, split_override

FIELDS: Final = ("base", "tasks", "baselines", "search", "seeds", "match", "check")
BASELINES: Final = "baselines"  # what their folder and page are called
QUANTITIES: Final = ("parameters", "flops", "state")
DEFAULT_SUITE: Final = "recall"
SEARCH_SEED: Final = 1
CHECK_SEEDS: Final = 2
MAX_NAME: Final = 60


@dataclass(frozen=True)
class Suite:
    """A protocol."""

    name: str  #: of the suite
    file: Path  #: which was read
    base: list[str]  #: overrides of all runs
    tasks: dict[str, list[str]]  #: further overrides by task
    baselines: dict[str, list[str]]  #: overrides of the known mechanisms by name
    #: values by key; of each combination one run is trained, and the best in validation is chosen
    search: dict[str, list[str]]
    seeds: int  #: how many runs of what was chosen count
    check: list[str]  #: overrides that make each run short
    #: what each mechanism has as much of as the first baseline, by its width; None for the widths given
    match: str | None = None

    def job(
        self, task: str, mechanism: Sequence[str], values: Sequence[str] = (), seed: int = SEARCH_SEED
    ) -> list[str]:
        """The overrides of a run of a mechanism on a task, with values of the search."""
        return merge_overrides(self.base, self.tasks[task], mechanism, values, [f"seed={seed}"])

    def reject_foreign(self, mechanism: Sequence[str]) -> None:
        """Refuse overrides of a mechanism that the suite makes itself: of the task, and what the search chooses.

        Options of a part that the search chooses are refused, too: the choice would take them along.
        """
        reject_task(mechanism, self.file)
        for word in mechanism:
            key, _ = split_override(word)
            if searched := next((name for name in self.search if f"{key}.".startswith(f"{name}.")), None):
                raise UserError(f"{word}: the search of {self.file} chooses {searched}; leave it out")

    def name_of(self, overrides: Sequence[str], name: str = "") -> str:
        """The name of a mechanism: the given one, or the values of its overrides, with the keys of options.

        Raises:
            UserError: it is a baseline, or the name is that of one, or no name.
        """
        for baseline, others in self.baselines.items():
            if sorted(others) == sorted(word.lstrip("+") for word in overrides):
                raise UserError(f"{' '.join(overrides)}: is the baseline {baseline!r} of {self.file}; leave it out")
        if name in self.baselines:
            raise UserError(f"name={name}: is the name of a baseline of {self.file}; choose another one")
        if name == BASELINES:
            raise UserError(f"name={name}: the page of all baselines of {self.file} has this name; choose another one")
        if name:
            check_name(name)
            return name
        words = [
            f"{key.rpartition('.')[2]}={value}" if "." in key else value
            for key, value in map(split_override, overrides)
        ]
        plain = [word.replace("{name: ", "").replace(": ", "=") for word in words]
        name = re.sub(r"[^\w.=-]+", "-", "-".join(plain)).replace("--", "-").strip("-.")[:MAX_NAME] or "yours"
        return f"your-{name}" if name in self.baselines else name

    @property
    def grid(self) -> list[list[str]]:
        """The combinations of the values that are tried."""
        columns = [[f"{key}={value}" for value in values] for key, values in self.search.items()]
        return [list(values) for values in itertools.product(*columns)]

    @property
    def has_search(self) -> bool:
        """Whether there is a choice among combinations."""
        return len(self.grid) > 1

    @property
    def counted_seeds(self) -> range:
        """The seeds of the runs that count: others than that of the search, whose best run may have been lucky."""
        return range(SEARCH_SEED + 1, SEARCH_SEED + 1 + self.seeds)

    def protocol(self, task: str) -> str:
        """A digest of what runs of a task must share to be compared: its overrides and the search."""
        text = repr((sorted(merge_overrides(self.base, self.tasks[task])), self.search, self.match))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def shortened(self, num_baselines: int) -> Suite:
        """The whole protocol in a minute: two tasks, a few baselines, two values of one key, and two seeds."""
        search = {key: values[: 2 if place == 0 else 1] for place, (key, values) in enumerate(self.search.items())}
        return replace(
            self,
            name=f"{self.name}-check",
            base=merge_overrides(self.base, self.check),
            tasks={task: merge_overrides(words, self.check) for task, words in [*self.tasks.items()][:2]},
            baselines=dict([*self.baselines.items()][:num_baselines]),
            search=search,
            seeds=min(self.seeds, CHECK_SEEDS),
        )


def merge_overrides(*lists: Sequence[str]) -> list[str]:
    """One list of overrides, in which later values win; another part takes the options of the earlier one along.

    >>> merge_overrides(["scorer=mlp", "scorer.depth=2", "seed=1"], ["+scorer=dot"], ["seed=3"])
    ['scorer=dot', 'seed=3']
    """
    merged: dict[str, str] = {}
    for words in lists:
        pairs = [*map(split_override, words)]
        kinds = tuple(f"{key}." for key, _ in pairs if key in GROUPS)
        merged = {key: word for key, word in merged.items() if not key.startswith(kinds)}
        for key, value in pairs:
            merged.pop(key, None)
            merged[key] = f"{key}={value}"
    return [*merged.values()]


def suite_names(config_dir: str | None = None) -> dict[str, Path]:
    """The files of suites by name: those that attnx has, and the user's, which win."""
    folders = [conf_folder(), *([Path(config_dir)] if config_dir else [])]
    return {file.stem: file for folder in folders for file in sorted((folder / "suite").glob("*.yaml"))}


def read_suite(name: str, config_dir: str | None = None) -> Suite:
    """Read a suite by its name, or by the path of its file.

    Raises:
        UserError: there is no such suite, or its file has a mistake; with the file and the key.
    """
    names = suite_names(config_dir)
    if (file := Path(name) if name.endswith(".yaml") else names.get(name)) is None:
        raise UserError(f"no suite {name!r}{suggest(name, names)} (a file of your own ends in .yaml)")
    content = _read_fields(file, names)
    check_name(file.stem)
    lists = {key: _read_lists(file, key, content.get(key)) for key in ("tasks", "baselines")}
    for key, named in lists.items():
        if not named:
            raise UserError(f"{file}: {key}: name at least one, with a list of overrides")
    if not is_count(str(content.get("seeds"))):
        raise UserError(f"{file}: seeds: expected a whole number, 1 or more")
    if (match := content.get("match")) not in (None, *QUANTITIES):
        raise UserError(f"{file}: match: {match}{suggest(str(match), QUANTITIES)}")
    suite = Suite(
        name=file.stem,
        file=file,
        base=_read_overrides(file, "base", content.get("base")),
        search=_read_search(file, content.get("search")),
        seeds=int(content["seeds"]),
        check=_read_overrides(file, "check", content.get("check")),
        match=match,
        **lists,
    )
    for name, words in suite.baselines.items():
        with report_place(f"{file}: baselines.{name}"):
            suite.reject_foreign(words)
    return suite


def _read_fields(file: Path, names: Mapping[str, Path]) -> dict[str, Any]:
    """The fields of a file, all of which are known."""
    if not file.is_file():
        raise UserError(f"{file}: no such file{suggest(file.stem, names)}")
    content = read_yaml(file)
    if not isinstance(content, dict):
        raise UserError(f"{file}: expected the fields {', '.join(FIELDS)}")
    for key in content:
        if key not in FIELDS:
            raise UserError(f"{file}: no field {key!r}{suggest(str(key), FIELDS)}")
    return content


def _read_lists(file: Path, field: str, value: Any) -> dict[str, list[str]]:
    """Overrides by name."""
    if not isinstance(value, Mapping):
        raise UserError(f"{file}: {field}: expected names, each with a list of overrides")
    with report_place(f"{file}: {field}"):
        for name in value:
            check_name(str(name))
    return {str(name): _read_overrides(file, f"{field}.{name}", words) for name, words in value.items()}


def _read_overrides(file: Path, field: str, value: Any) -> list[str]:
    """A list of overrides; it may be left out."""
    words = value or []
    if not isinstance(words, list) or not all(isinstance(word, str) and "=" in word[1:] for word in words):
        raise UserError(f"{file}: {field}: expected a list of overrides, such as [scorer=dot, scope.window=2]")
    with report_place(f"{file}: {field}"):
        reject_several(words)
        reject_repeated(words)
    return words


def _read_search(file: Path, value: Any) -> dict[str, list[str]]:
    """Lists of values by key, without a plus; it may be left out."""
    search = value or {}
    if not isinstance(search, Mapping) or not all(isinstance(values, list) and values for values in search.values()):
        raise UserError(f"{file}: search: expected keys with lists of values, such as optimizer.lr: [0.001, 0.01]")
    columns = [[f"{key}={value_text(item)}" for item in values] for key, values in search.items()]
    with report_place(f"{file}: search"):
        reject_repeated([column[0] for column in columns])
        for column in columns:
            reject_several(column)
            reject_task(column, file)
    return {split_override(column[0])[0]: [split_override(word)[1] for word in column] for column in columns}


def reject_task(overrides: Sequence[str], file: Path) -> None:
    """Refuse an override of the task: the tasks of a suite are those of its file."""
    for word in overrides:
        if split_override(word)[0].partition(".")[0] == "task":
            raise UserError(f"{word}: the tasks are those of {file}; leave it out")


def reject_several(overrides: Sequence[str]) -> None:
    """Refuse an override that means several runs, or that a suite sets itself."""
    for word in overrides:
        key, value = split_override(word)
        if SEVERAL_VALUES.search(value):
            raise UserError(f"{word}: a suite compares one setting of a mechanism; give one value")
        if key == "match" or word.endswith("budget=flops"):
            raise UserError(f"{word}: would match the runs of a mechanism alone; write match: in the suite's file")
        if key in ("seed", "name", "folder", "fresh"):
            raise UserError(f"{word}: a suite sets seeds and folders itself; leave it out")
