"""Check the laws of a part and report each failure: its location, the result, and the law."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch

from attnx.errors import UserError
from attnx.laws.candidate import Candidate, LawSkipped
from attnx.laws.variants import variants
from attnx.laws.violation import Violation
from attnx.registry.declarations import undeclared
from attnx.registry.source_scan import KINDS

Law = Callable[[Candidate], None]
# The modules with the laws of each kind, in the order of the checks.
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

# Suffixes of the names of laws that need more than the part, by their module.
SUFFIXES = {"attention": " in attention", "attention_sources": " in attention", "model": " in a model"}


class Outcome(NamedTuple):
    """The result of one law.

    Attributes:
        law: its name.
        failure: one line with the location, the result and the law; "" if the law holds.
        skip_reason: why it was not checked; "" if it was.
    """

    law: str
    failure: str = ""
    skip_reason: str = ""


def kind_laws(kind: str, quick: bool = False) -> tuple[Law, ...]:
    """The laws of a kind, in order; with ``quick`` those that take milliseconds.

    Raises:
        UserError: the kind has no laws.
    """
    if kind not in MODULES:
        kinds = ", ".join(kind for kind in KINDS if kind in MODULES)
        raise UserError(f"there are no laws for {kind}; choose from {kinds}")
    modules = [importlib.import_module(f"attnx.laws.{name}") for name in MODULES[kind]]
    return tuple(law for module in modules for law in (module.QUICK if quick else module.LAWS))


def statement(law: Law) -> str:
    """A law in words: the first paragraph of its docstring, as one line."""
    return " ".join((inspect.getdoc(law) or "").split("\n\n")[0].split()).rstrip(".")


@contextmanager
def fixed_random_state(dtype: torch.dtype) -> Iterator[None]:
    """Fix the seed and the default dtype, and enable gradients; all are restored afterwards."""
    previous = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(previous)


def law_failure(law: Law, candidate: Candidate, dtype: torch.dtype = torch.float64) -> str:
    """Check one law: "" if it holds, else one line with the location, the result and the law.

    Raises:
        UserError: the part rejects its options.
    """
    try:
        with fixed_random_state(dtype):
            law(candidate)
    except (UserError, LawSkipped):
        raise
    except Violation as broken:
        method = f" ({broken.member})" if broken.member else ""
        return _line(candidate, f"{candidate.location(broken.member)}{method}", law, broken.message)
    except Exception as error:
        text = f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"
        return _line(candidate, candidate.error_location(error), law, text)
    return ""


def _line(candidate: Candidate, location: str, law: Law, message: str) -> str:
    defaults = {knob.name: knob.default for knob in candidate.info.knobs}
    knobs = "".join(f" {knob}={value}" for knob, value in candidate.knobs.items() if value != defaults.get(knob))
    return f"the {candidate.kind} {candidate.name!r}{knobs}, {location}: {message}; the law: {statement(law)}"


def check(candidate: Candidate) -> list[Outcome]:
    """Check every law of a part with its options, and with each other value of every option that is a choice.

    Raises:
        UserError: no such part, its file cannot be imported, it rejects its options, or its kind has no laws.
    """
    laws = kind_laws(candidate.kind)
    if wrong := undeclared(candidate.info):
        failure = f"the {candidate.kind} {candidate.name!r}, {wrong}"
        return [
            Outcome(law_name(laws[0]), failure),
            *(Outcome(law_name(law), skip_reason="see above") for law in laws[1:]),
        ]
    return [_outcome(law, candidate) for law in laws]


def law_name(law: Law) -> str:
    """The name of a law in a table, with a suffix for laws of attention and models."""
    suffix = SUFFIXES.get(law.__module__.rpartition(".")[2], "")
    return f"{law.__name__.replace('_', ' ')}{suffix}"


def _outcome(law: Law, candidate: Candidate) -> Outcome:
    for variant in variants(candidate):
        try:
            if broken := law_failure(law, variant):
                return Outcome(law_name(law), broken)
        except LawSkipped as reason:
            return Outcome(law_name(law), skip_reason=str(reason))
        except UserError:
            if variant is candidate:
                raise  # other values of its options may contradict its other options
    return Outcome(law_name(law))


def first_failure(kind: str, name: str, knobs: Mapping[str, Any]) -> str:
    """The first failure among the quick laws of a part in single precision, as in training; "" if all hold."""
    if kind not in MODULES:
        return ""
    candidate = Candidate(kind, name, knobs)
    for law in kind_laws(kind, quick=True):
        with suppress(LawSkipped):
            if broken := law_failure(law, candidate, torch.float32):
                return broken
    return ""
