"""Tries the laws of a part and says of each that is broken where, what the law says, and what came instead."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch

from attnx.errors import UserError
from attnx.laws.candidate import Candidate, NotTried
from attnx.laws.variants import variants
from attnx.laws.violation import Violation
from attnx.registry.declarations import undeclared
from attnx.registry.source_scan import KINDS

Law = Callable[[Candidate], None]
# The modules that hold the laws of each kind, in the order in which they are tried.
MODULES: dict[str, tuple[str, ...]] = {
    "scorer": ("scorer", "composed", "in_model"),
    "scope": ("scope", "composed"),
    "normalizer": ("normalizer", "composed", "in_model"),
    "query": ("query", "in_model"),
    "encoder": ("encoder", "in_model"),
    "decoder": ("decoder", "in_model"),
    "readout": ("readout", "in_model"),
    "output": ("output", "in_model"),
    "model": ("in_model",),
    "decoding": ("decoding",),
    "task": ("task",),
    "metric": ("metric",),
    "tokenizer": ("tokenizer",),
    "optimizer": ("optimizer",),
    "lr_schedule": ("lr_schedule",),
    "kernel": ("kernel",),
}

# What is said of a law that is not of the part alone, by the module it is from.
WHERE = {"attention": " in attention", "attention_sources": " in attention", "model": " in a model"}


class Outcome(NamedTuple):
    """How one law of a part turned out.

    Attributes:
        law: its name.
        failure: one line that says where it is broken, what came instead and what it says; "" if it is not.
        untried: why it could not be tried; "" if it was.
    """

    law: str
    failure: str = ""
    untried: str = ""


def laws_of(kind: str, quick: bool = False) -> tuple[Law, ...]:
    """The laws of a kind, in order; ``quick`` are those that take milliseconds.

    Raises:
        UserError: there are none.
    """
    if kind not in MODULES:
        others = ", ".join(one for one in KINDS if one in MODULES)
        raise UserError(f"there are no laws of a {kind}; there are of {others}")
    modules = [importlib.import_module(f"attnx.laws.{name}") for name in MODULES[kind]]
    return tuple(law for module in modules for law in (module.QUICK if quick else module.LAWS))


def statement(law: Law) -> str:
    """What a law says: the first paragraph of its docstring, as one line."""
    return " ".join((inspect.getdoc(law) or "").split("\n\n")[0].split()).rstrip(".")


@contextmanager
def drawn_alike(dtype: torch.dtype) -> Iterator[None]:
    """The same random numbers in every trial, of this precision; both are put back, and gradients are wanted."""
    before = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


def failure(law: Law, candidate: Candidate, dtype: torch.dtype = torch.float64) -> str:
    """Try one law; "" if it holds, else one line that says what is wrong and where.

    Raises:
        UserError: the part refuses the knobs it is to be built with.
    """
    try:
        with drawn_alike(dtype):
            law(candidate)
    except (UserError, NotTried):
        raise
    except Violation as broken:
        method = f" ({broken.member})" if broken.member else ""
        return _line(candidate, f"{candidate.place(broken.member)}{method}", law, broken.found)
    except Exception as error:
        text = f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"
        return _line(candidate, candidate.place_of_error(error), law, text)
    return ""


def _line(candidate: Candidate, place: str, law: Law, found: str) -> str:
    usual = {knob.name: knob.default for knob in candidate.info.knobs}
    knobs = "".join(f" {knob}={value}" for knob, value in candidate.knobs.items() if value != usual.get(knob))
    return f"the {candidate.kind} {candidate.name!r}{knobs}, {place}: {found}; the law: {statement(law)}"


def check(candidate: Candidate) -> list[Outcome]:
    """Try every law of a part, with its knobs as given and with each other value of a knob that is a choice.

    Raises:
        UserError: no such part, its file cannot be imported, it refuses its knobs, or there are no laws of its kind.
    """
    laws = laws_of(candidate.kind)
    if wrong := undeclared(candidate.info):
        failure = f"the {candidate.kind} {candidate.name!r}, {wrong}"
        return [Outcome(name_of(laws[0]), failure), *(Outcome(name_of(law), untried="see above") for law in laws[1:])]
    return [_outcome(law, candidate) for law in laws]


def name_of(law: Law) -> str:
    """The name of a law in a table; one of attention or of a model says that it is."""
    where = WHERE.get(law.__module__.rpartition(".")[2], "")
    return f"{law.__name__.replace('_', ' ')}{where}"


def _outcome(law: Law, candidate: Candidate) -> Outcome:
    for variant in variants(candidate):
        try:
            if broken := failure(law, variant):
                return Outcome(name_of(law), broken)
        except NotTried as reason:
            return Outcome(name_of(law), untried=str(reason))
        except UserError:
            if variant is candidate:
                raise  # other values of its knobs may contradict what stands beside it
    return Outcome(name_of(law))


def first_failure(kind: str, name: str, knobs: Mapping[str, Any]) -> str:
    """Try the quick laws of a part in single precision, as it will be trained; the first that is broken, or ""."""
    if kind not in MODULES:
        return ""
    candidate = Candidate(kind, name, knobs)
    for law in laws_of(kind, quick=True):
        with suppress(NotTried):
            if broken := failure(law, candidate, torch.float32):
                return broken
    return ""
