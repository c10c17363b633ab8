"""What test files share: one thread, every part with each value of its choices, and compositions built from names."""

from __future__ import annotations

import ast
import functools
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from attnx import registry

Choice = tuple[str, dict[str, Any]]
Place = tuple[str, int]  # a factor and the number of a choice

# Sizes that keep the laws fast; a part that is not named here is tried with its own defaults.
SMALL: dict[tuple[str, str], dict[str, Any]] = {
    ("scorer", "additive"): {"hidden": 19},
    ("scorer", "mlp"): {"widths": [19]},
    ("scorer", "location"): {"hidden": 19, "filters": 3, "reach": 2},
    ("scorer", "coverage"): {"hidden": 19},
    ("scope", "local"): {"window": 1},
    ("query", "language_tag"): {"width": 5},
}
# Values worth a law of their own beside each value of a knob that is a choice.
MORE: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("scorer", "mlp"): [{"depth": 3, "widths": [19, 5]}],
    ("scope", "local"): [{"window": 0}],
    ("normaliser", "entmax"): [{"alpha": 1.05}, {"alpha": 1.9}, {"alpha": 2.0}],
    ("normaliser", "sigmoid"): [{"bias": -2.0}],
}
# A test that takes `each_scorer` runs once for every variant of every scorer, one that takes `plain_scorer` once for
# every scorer as it is; so with the other kinds. One that takes `combination` runs for combinations of its module's
# FACTORS, lists of choices by name: any two choices meet, unless its module's `possible` says that they cannot.
KINDS = ("scorer", "scope", "normaliser", "query")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for kind in KINDS:
        for argument, listed in ((f"each_{kind}", variants), (f"plain_{kind}", plain)):
            if argument in metafunc.fixturenames:
                found = listed(kind)
                metafunc.parametrize(argument, found, ids=[shown(choice) for choice in found])
    if "combination" in metafunc.fixturenames:
        rows = combinations_of(metafunc.module)
        metafunc.parametrize("combination", rows, ids=["-".join(map(shown, row.values())) for row in rows])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked ``needs_data(name)`` where ``$ATTNX_DATA/name`` is not there."""
    for marker in item.iter_markers("needs_data"):
        name = marker.args[0]
        if not os.environ.get("ATTNX_DATA"):
            pytest.skip("$ATTNX_DATA is not set")
        if not Path(os.environ["ATTNX_DATA"], name).exists():
            pytest.skip(f"$ATTNX_DATA holds no {name}")


def plain(kind: str) -> list[Choice]:
    """Every registered part of a kind as it is, but small."""
    return [(name, SMALL.get((kind, name), {})) for name in registry.names(kind)]


def variants(kind: str) -> list[Choice]:
    """Every registered part of a kind: as it is, and with each other value of a knob that is a choice."""
    found: list[Choice] = []
    for name in registry.names(kind):
        small = SMALL.get((kind, name), {})
        others = [
            {knob.name: value}
            for knob in registry.part(kind, name).knobs
            for value in choices_of(knob.annotation)
            if value != knob.default
        ]
        found += [(name, {**small, **knobs}) for knobs in [{}, *others, *MORE.get((kind, name), [])]]
    return found


def choices_of(annotation: str) -> Sequence[Any]:
    """The values of a ``bool`` or of a ``Literal``; none for any other type."""
    if annotation == "bool":
        return (False, True)
    for node in ast.walk(ast.parse(annotation, mode="eval")):
        if (
            isinstance(node, ast.Subscript)
            and ast.unparse(node.value) == "Literal"
            and not annotation.startswith("list")
        ):
            values = ast.literal_eval(node.slice)
            return values if isinstance(values, tuple) else (values,)
    return ()


def shown(choice: Any) -> str:
    """A choice in a test's name: a part with its knobs, several values, or one."""
    match choice:
        case (str(name), dict(knobs)):
            text = "-".join([name, *(f"{knob}={value}" for knob, value in knobs.items())])
        case list() | tuple():
            text = "+".join(map(str, choice))
        case _:
            text = str(choice)
    return text.replace(" ", "")


@functools.cache
def combinations_of(module: ModuleType) -> list[dict[str, Any]]:
    """The combinations of a module's FACTORS; one that says ``plain`` is every part of the kind it is named for."""
    factors = {name: plain(name) if values == "plain" else values for name, values in module.FACTORS.items()}
    return pairwise(factors, getattr(module, "possible", lambda chosen: True))


def pairwise(factors: Mapping[str, Sequence[Any]], possible: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """Few combinations in which any two choices of two factors meet: found greedily, and always the same.

    Args:
        factors: what can be chosen, by name.
        possible: whether choices, of some of the factors or of all, can go together.
    """

    def chosen(row: Sequence[Place]) -> dict[str, Any]:
        numbers = dict(row)
        return {name: factors[name][numbers[name]] for name in factors if name in numbers}

    def completed(row: list[Place]) -> list[Place] | None:
        """The row with a choice of every factor that it lacks, first those that bring most together."""
        taken = dict(row)
        lacking = next((name for name in factors if name not in taken), None)
        if lacking is None:
            return row
        fitting = [place for place in places[lacking] if possible(chosen([*row, place]))]
        fitting.sort(key=lambda new: (-sum(frozenset((new, old)) in waiting for old in row), used[new]))
        return next(filter(None, (completed([*row, place]) for place in fitting)), None)

    places = {name: [(name, number) for number in range(len(values))] for name, values in factors.items()}
    pairs = [pair for one, two in itertools.combinations(places.values(), 2) for pair in itertools.product(one, two)]
    waiting = {frozenset(pair): pair for pair in pairs if possible(chosen(pair))}
    used: Counter[Place] = Counter()
    found = []
    while waiting:
        pair = next(iter(waiting))
        row = completed(list(waiting.pop(pair)))
        if row is not None:  # else other factors keep these two apart
            for met in itertools.combinations(row, 2):
                waiting.pop(frozenset(met), None)
            used.update(row)
            found.append(chosen(row))
    return found


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """One thread here and in every process that a test starts: tests run side by side, and idle threads spin."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture
def float64() -> Iterator[None]:
    """Build and draw everything in double precision; a failure repeats, since every test draws the same."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


NAMES = {"model": "seq2seq", "encoder": "recurrent", "decoder": "recurrent", "readout": "joint"}


def _composed(**choices: Any) -> dict[str, Any]:
    nodes: dict[str, Any] = {"scorer": "additive", "scope": "global", "normaliser": "softmax", "attention": "on"}
    nodes |= {kind: choice for kind, choice in choices.items() if kind not in (*NAMES, "query")}
    heads = registry.spec("attention", nodes["attention"])[1].get("heads", 1)
    # Primes, as many times as there are heads, which must divide them.
    sizes = {
        "model": {"embedding": 7 * heads, "positions": 19 * heads},
        "encoder": {"hidden": 11 * heads},
        "decoder": {"hidden": 13 * heads},
        "readout": {},
    }
    nodes |= {kind: {"name": NAMES[kind], **small, **choices.get(kind, {})} for kind, small in sizes.items()}
    config: dict[str, Any] = {}
    for kind, choice in nodes.items():
        name, knobs = registry.spec(kind, choice)
        config[kind] = {"name": name, **registry.check(kind, name, {**SMALL.get((kind, name), {}), **knobs})}
    names = choices.get("query", ["current_state"])
    config["query"] = {name: registry.check("query", name, SMALL.get(("query", name), {})) for name in names}
    if config["attention"]["name"] == "none":
        config = {kind: node for kind, node in config.items() if kind not in KINDS}
    return config


@pytest.fixture(scope="session")
def composed() -> Callable[..., dict[str, Any]]:
    """Make a configuration: ``composed(scorer="dot", query=["token"], model={"feed": "now"})``; the rest is small."""
    return _composed


@pytest.fixture(scope="session")
def built() -> Callable[..., Any]:
    """Build the model of a configuration with 23 source and 17 target symbols, or features of either, and 3 tags.

    Symbols from 4 to 16 are the same on both sides, where they can be copied.
    """

    def build(features: int = 0, target_features: int = 0, **choices: Any) -> Any:
        config = _composed(**choices)
        sizes = {"source_symbols": 23, "source_features": features, "target_symbols": 17, "tags": 3}
        sizes["target_features"] = target_features
        model = registry.build("model", config["model"], config=config, **sizes)
        if hasattr(getattr(model, "output", None), "match"):
            model.output.match([number if 4 <= number < 17 else 0 for number in range(23)])
        return model

    return build
