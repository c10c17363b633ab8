"""What test files share: one thread, every part with each value of its choices, and compositions built from names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from attnx import registry

Choice = tuple[str, dict[str, Any]]

# Sizes that keep the laws fast; a part that is not named here is tried with its own defaults.
SMALL: dict[tuple[str, str], dict[str, Any]] = {
    ("scorer", "additive"): {"hidden": 19},
    ("scorer", "mlp"): {"widths": [19]},
    ("scope", "local"): {"window": 1},
}
# Values worth a law of their own beside each value of a knob that is a choice.
MORE: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("scorer", "mlp"): [{"depth": 3, "widths": [19, 5]}],
    ("scope", "local"): [{"window": 0}],
}
# A test that takes `each_scorer` runs once for every variant of every scorer, one that takes `plain_scorer` once for
# every scorer as it is; so with the other kinds.
KINDS = ("scorer", "scope", "normaliser", "query")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for kind in KINDS:
        for argument, listed in ((f"each_{kind}", variants), (f"plain_{kind}", plain)):
            if argument in metafunc.fixturenames:
                found = listed(kind)
                metafunc.parametrize(argument, found, ids=[shown(choice) for choice in found])


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


def shown(choice: Choice) -> str:
    name, knobs = choice
    return "-".join([name, *(f"{knob}={value}" for knob, value in knobs.items())]).replace(" ", "")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def float64() -> Iterator[None]:
    """Build and draw everything in double precision; a failure repeats, since every test draws the same."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


def _composed(**choices: Any) -> dict[str, Any]:
    nodes: dict[str, Any] = {"scorer": "additive", "scope": "global", "normaliser": "softmax", "attention": "on"}
    nodes |= {
        "model": {"embedding": 7},
        "encoder": {"hidden": 11},
        "decoder": {"hidden": 13},
        "readout": {},
    }
    names = {"model": "seq2seq", "encoder": "recurrent", "decoder": "recurrent", "readout": "joint"}
    for kind, choice in choices.items():
        if kind in names:
            nodes[kind] = {**nodes[kind], **choice}
        elif kind != "query":
            nodes[kind] = choice
    config: dict[str, Any] = {}
    for kind, choice in nodes.items():
        name, knobs = registry.spec(kind, {"name": names[kind], **choice} if kind in names else choice)
        config[kind] = {"name": name, **registry.check(kind, name, {**SMALL.get((kind, name), {}), **knobs})}
    config["query"] = {name: registry.check("query", name, {}) for name in choices.get("query", ["current_state"])}
    if config["attention"]["name"] == "none":
        config = {kind: node for kind, node in config.items() if kind not in ("scorer", "scope", "normaliser", "query")}
    return config


@pytest.fixture(scope="session")
def composed() -> Callable[..., dict[str, Any]]:
    """Make a configuration: ``composed(scorer="dot", query=["token"], model={"feed": "now"})``; the rest is small."""
    return _composed


@pytest.fixture(scope="session")
def built() -> Callable[..., Any]:
    """Build the model of a configuration with 23 source and 17 target symbols."""

    def build(**choices: Any) -> Any:
        config = _composed(**choices)
        return registry.build("model", config["model"], config=config, source_symbols=23, target_symbols=17)

    return build
