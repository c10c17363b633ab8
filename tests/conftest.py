"""Fixtures of all tests: one thread, the variants of every part, and configurations and models by name."""

import functools
import gc
import itertools
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command does; numpy reads it when it is imported
# Many tests fork this process, and a fork of one that has used a GPU cannot train.
if os.environ.get("ATTNX_TEST_GPU") != "1":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""

import pytest
import torch
from _pytest.doctest import DoctestModule

from attnx import accel, registry
from attnx.accel.modules import KERNELS
from attnx.config.groups import DEFAULTS
from attnx.laws.candidate import Candidate
from attnx.laws.candidate import variants as of_candidate
from attnx.laws.small import SMALL, small_config, small_model
from attnx.registry import plugin_files, source_scan

# Collected tests are a million objects that stay, and to walk over them again and again took a fifth of all time.
gc.set_threshold(50_000)

Choice = tuple[str, dict[str, Any]]
Place = tuple[str, int]  # a factor and the number of a choice

# Values worth a law of their own beside each value of an option that is a choice.
EXTRA_OPTIONS: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("scorer", "mlp"): [{"depth": 3, "hidden_sizes": [19, 5]}],
    ("scope", "local"): [
        {"window": 0},
        {"sinks": 2, "dilation": 2},
        {"sinks": 1, "global_tokens": 2, "center": "predictive"},
    ],
    ("normalizer", "entmax"): [{"alpha": 1.05}, {"alpha": 1.9}, {"alpha": 2.0}],
    ("normalizer", "sigmoid"): [{"bias": -2.0}],
}
# Where tests take long, dearest first.
DEAR_FOLDERS = ("tests/page", "tests/runs/sweeps", "tests/learn", "tests/house", "tests/runs", "tests/laws")
# A test that takes `each_scorer` runs once for every variant of every scorer, one that takes `plain_scorer` once for
# every scorer as it is. One that takes `combination` runs for combinations of its module's FACTORS, lists of choices by
# name: any two choices meet, unless its module's `possible` says that they cannot; of the kinds in its ALIKE the first
# part of each group stands for the others, and all take turns. One that takes `sample_combination` runs for a few of
# these, in which every choice occurs. One that takes `combinations` loops over them in subtests: they are found as it
# runs, and not by every worker.


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for argument, listed in (("each_scorer", variants), ("plain_scorer", plain)):
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, listed("scorer"), ids=choice_name)
    for argument, select in (("combination", list), ("sample_combination", each_choice)):
        if argument in metafunc.fixturenames:
            rows = select(combinations_of(metafunc.module))
            metafunc.parametrize(argument, rows, ids=map(combination_name, rows))


def pytest_configure(config: pytest.Config) -> None:
    """Have pytest-xdist keep the order of files: its own leaves those of few tests to the end, often the dear ones."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Processes beside each other begin with what is dear, so that none is left with it alone at the end."""
    if hasattr(config, "workerinput"):
        folders = [*DEAR_FOLDERS, ""]
        items.sort(key=lambda item: next(i for i, folder in enumerate(folders) if item.nodeid.startswith(folder)))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Iterator[list[pytest.Collector]]:
    """Look for no docstrings to test among tests: it takes seconds."""
    return [collector for collector in (yield) if not isinstance(collector, DoctestModule)]


def pytest_collection_finish() -> None:
    """Leave what is imported and collected to no later collection of garbage, nor to the copies of forks."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked ``needs_data(name)`` where ``$ATTNX_DATA/name`` is not there."""
    for marker in item.iter_markers("needs_data"):
        name = marker.args[0]
        if not os.environ.get("ATTNX_DATA"):
            pytest.skip("$ATTNX_DATA is not set")
        if not Path(os.environ["ATTNX_DATA"], name).exists():
            pytest.skip(f"$ATTNX_DATA holds no {name}")


def node(kind: str, choice: str | Choice, **options: Any) -> dict[str, Any]:
    """A part in a configuration, with the defaults of the other options."""
    name, chosen = registry.parse_spec(kind, choice)
    return {"name": name, **registry.check(kind, name, {**chosen, **options})}


def declares(choices: Mapping[str, Any], *names: str) -> bool:
    """Whether the scorer or the normalizer of some choices declares one of these."""
    parts = [registry.describe(kind, choices[kind][0]) for kind in ("scorer", "normalizer") if kind in choices]
    return any(part.declarations.get(name) for part in parts for name in names)


def plain(kind: str) -> list[Choice]:
    """Every part of a kind that can be composed with others as it is, but small."""
    return [(name, SMALL.get((kind, name), {})) for name in registry.names(kind)]


def variants(kind: str) -> list[Choice]:
    """Every registered part of a kind: as it is, and with each other value of an option that is a choice."""
    specs: list[Choice] = []
    for name in registry.names(kind):
        small = SMALL.get((kind, name), {})
        alternatives = [dict(candidate.options) for candidate in of_candidate(Candidate(kind, name))]
        specs += [(name, {**small, **options}) for options in [*alternatives, *EXTRA_OPTIONS.get((kind, name), [])]]
    return specs


def choice_name(choice: Any) -> str:
    """A choice in a test's name: a part with its options, several values, or one."""
    match choice:
        case (str(name), dict(options)):
            text = "-".join([name, *(f"{option}={value}" for option, value in options.items())])
        case list() | tuple():
            text = "+".join(map(str, choice))
        case _:
            text = str(choice)
    return text.replace(" ", "")


def group_alike(kind: str, choices: Sequence[Any]) -> list[list[Any]]:
    """Scorers or normalizers in groups of those that declare the same and that the same kernels of accel serve."""
    groups: dict[str, list[Any]] = {}
    for choice in choices:
        name, _ = registry.parse_spec(kind, choice)
        serving = [kernel.name for kernel in KERNELS if registry.find(kind, name) in getattr(kernel, f"{kind}s")]
        groups.setdefault(f"{registry.describe(kind, name).declarations}{serving}", []).append(choice)
    return list(groups.values())


@pytest.fixture
def combinations(request):
    """The combinations of the test's module."""
    return combinations_of(request.module)


def combination_name(combination: Mapping[str, Any]) -> str:
    """A combination in the name of a test or a subtest."""
    return "-".join(map(choice_name, combination.values()))


@functools.cache
def combinations_of(module: ModuleType) -> list[dict[str, Any]]:
    """The combinations of a module's FACTORS; one that says ``plain`` is every part of the kind it is named for."""
    factors = {name: plain(name) if values == "plain" else values for name, values in module.FACTORS.items()}
    groups = {kind: group_alike(kind, factors[kind]) for kind in getattr(module, "ALIKE", ())}
    firsts = {kind: [alike[0] for alike in parts] for kind, parts in groups.items()}
    turns = {kind: {choice_name(alike[0]): itertools.cycle(alike) for alike in parts} for kind, parts in groups.items()}
    rows = pairwise(factors | firsts, getattr(module, "possible", lambda choices: True))
    return [row | {kind: next(parts[choice_name(row[kind])]) for kind, parts in turns.items()} for row in rows]


def each_choice(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Few of the combinations, in which every choice of theirs occurs: found greedily, and always the same."""
    choices = [{(name, choice_name(value)) for name, value in row.items()} for row in rows]
    waiting, sample = set().union(*choices), []
    while waiting:
        index = max(range(len(rows)), key=lambda index: len(choices[index] & waiting))
        waiting -= choices[index]
        sample.append(rows[index])
    return sample


def pairwise(factors: Mapping[str, Sequence[Any]], possible: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """Few combinations in which any two choices of two factors meet: found greedily, and always the same.

    Args:
        factors: what can be chosen, by name.
        possible: whether choices, of some of the factors or of all, can go together.
    """

    def as_choices(row: Sequence[Place]) -> dict[str, Any]:
        numbers = dict(row)
        return {name: factors[name][numbers[name]] for name in factors if name in numbers}

    def complete_row(row: list[Place]) -> list[Place] | None:
        """The row with a choice of every factor that it lacks, first those that bring most together."""
        completed_row = dict(row)
        lacking = next((name for name in factors if name not in completed_row), None)
        if lacking is None:
            return row
        best_first = sorted(
            places[lacking], key=lambda new: (-sum(frozenset((new, old)) in waiting for old in row), used[new])
        )
        fitting = (new_row for place in best_first if possible(as_choices(new_row := [*row, place])))
        return next(filter(None, map(complete_row, fitting)), None)

    places = {name: [(name, number) for number in range(len(values))] for name, values in factors.items()}
    pairs = [
        pair for first, two in itertools.combinations(places.values(), 2) for pair in itertools.product(first, two)
    ]
    waiting = {frozenset(pair): pair for pair in pairs if possible(as_choices(pair))}
    used: Counter[Place] = Counter()
    rows = []
    while waiting:
        pair = next(iter(waiting))
        row = complete_row(list(waiting.pop(pair)))
        if row is not None:  # else other factors keep these two apart
            for met in itertools.combinations(row, 2):
                waiting.pop(frozenset(met), None)
            used.update(row)
            rows.append(as_choices(row))
    return rows


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """One thread here and in every process that a test starts: tests run side by side, and idle threads spin."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(autouse=True, scope="session")
def _seeds():
    """Seed the numbers of the CPU alone: for the accelerators that are not there torch formats the call stack, 2 ms."""
    with pytest.MonkeyPatch.context() as patch:
        if not torch.accelerator.is_available():
            patch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
        yield


@pytest.fixture
def new_parts_are_forgotten():
    """What a test registers, and all plug-ins that were imported, are gone after it; what it imports of attnx stays."""
    registered = dict(registry._registered)
    yield
    plugin_files.unload()
    for key, item in [*registry._registered.items()]:
        if _is_of_plug_in(item) or (key not in registered and not item.__module__.startswith("attnx.")):
            del registry._registered[key]
            sys.modules.pop(item.__module__, None)
    registry._registered.update({key: item for key, item in registered.items() if not _is_of_plug_in(item)})
    source_scan.by_hand.clear()
    source_scan.scan_files.cache_clear()


def _is_of_plug_in(item: Callable[..., Any]) -> bool:
    return item.__module__.startswith(f"{plugin_files.PACKAGE}.")


@pytest.fixture
def float64():
    """Build and draw everything in double precision; a failure repeats, since every test draws the same."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def float32(float64):
    """Single precision again, for what is fast in it alone."""
    torch.set_default_dtype(torch.float32)


@pytest.fixture(autouse=True, scope="session")
def _accel():
    """``ATTNX_TEST_ACCEL=off`` makes ``accel=off`` the default, and skips a test that enables accel nevertheless."""
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get("ATTNX_TEST_ACCEL") == "off":
            patch.setitem(DEFAULTS, "accel", "off")
            patch.setattr(accel, "enable", lambda model: pytest.skip("ATTNX_TEST_ACCEL=off: this test is of accel"))
        yield


@pytest.fixture(scope="session")
def compose_config():
    """Make a configuration: ``composed(scorer="dot", query=["token"], model={"feed": "now"})``; the rest is small."""
    return small_config


@pytest.fixture(scope="session")
def build_model():
    """Build the model of a configuration with 23 source and 17 target symbols, or features of either, and 3 tags.

    Symbols from 4 to 16 are the same on both sides, where they can be copied.
    """

    def build(features: int = 0, target_features: int = 0, **choices: Any) -> Any:
        return small_model(small_config(**choices), features, target_features)

    return build


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skip what computes an LSTM in 16 bits on a CPU for which oneDNN has none."""
    try:
        return (yield)
    except Exception as error:
        if "could not create a primitive descriptor" in "".join(traceback.format_exception(error)):
            pytest.skip("oneDNN has no LSTM in 16 bits for this CPU")
        raise
