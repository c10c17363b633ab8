"""Checks parts by the laws of their kind: one for attnx check, plug-ins before they train."""

from __future__ import annotations

import itertools
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch

from attnx import registry
from attnx.config.no_effect import chosen_parts
from attnx.errors import UserError, type_and_text
from attnx.files.process_state import isolated_state
from attnx.laws.candidate import Candidate, LawSkipped, variants
from attnx.laws.laws import DETERMINISM, Law
from attnx.laws.violation import Violation
from attnx.registry.part import KINDS, undeclared
from attnx.registry.plugin_errors import PlugInError, advice, error_place

# The classes of laws of each kind, in the order of the checks.
CLASSES: dict[str, tuple[str, ...]] = {
    "scorer": ("scorer:ScorerLaws", "recurrence:RecurrentScorerLaws", "attention:AttentionLaws", "model:ModelLaws"),
    "scope": ("scope:ScopeLaws", "attention:AttentionLaws"),
    "normalizer": (
        "normalizer:NormalizerLaws",
        "recurrence:RecurrentNormalizerLaws",
        "sampled_normalizer:SampledNormalizerLaws",
        "attention:AttentionLaws",
        "model:ModelLaws",
    ),
    "bias": ("bias:BiasLaws", "attention:AttentionLaws", "model:ModelLaws"),
    "mixer": ("mixer:MixerLaws", "model:ModelLaws"),
    "query": ("query:QueryLaws", "model:ModelLaws"),
    "encoder": ("networks:EncoderLaws", "model:ModelLaws"),
    "decoder": ("networks:DecoderLaws", "model:ModelLaws"),
    "readout": ("networks:ReadoutLaws", "model:ModelLaws"),
    "output": ("networks:OutputLaws", "model:ModelLaws"),
    "model": ("model:ModelLaws",),
    "decoding": ("decoding:DecodingLaws",),
    "task": ("task:TaskLaws",),
    "metric": ("metric:MetricLaws",),
}


PartWithOptions = tuple[str, str, Mapping[str, Any]]


class LawFailure(NamedTuple):
    """Why a law does not hold."""

    line: str  # the part, the location and the result
    is_exception: bool = False  # whether the part raised something; else it gave a result that the law excludes


class Outcome(NamedTuple):
    """The result of one law."""

    law: Law  # which
    failure: LawFailure | None = None  # why it does not hold; None if it does
    skip_reason: str = ""  # why it was not checked; "" if it was


def kind_laws(kind: str, quick: bool = False) -> tuple[Law, ...]:
    """The laws of a kind that has some, in order; with ``quick`` those that take milliseconds."""
    classes = [pkgutil.resolve_name(f"attnx.laws.{name}") for name in CLASSES[kind]]
    laws = [law for class_ in classes for law in class_.collect()]
    # What a part is composed in takes longer.
    return tuple(law for law in laws if not quick or (law.is_quick and law.laws.kind == kind))


@contextmanager
def fixed_random_state(dtype: torch.dtype) -> Iterator[None]:
    """Fix the seed and the default dtype, and enable gradients; all are restored afterwards."""
    with isolated_state(dtype):
        torch.manual_seed(0)
        yield


def law_failure(law: Law, candidate: Candidate, dtype: torch.dtype = torch.float64) -> str:
    """Check one law: "" if it holds, else one line with the location, the result and the law.

    Raises:
        UserError: the part rejects its options.
    """
    failure = find_failure(law, candidate, dtype)
    return f"{failure.line}; the law: {law.statement}" if failure else ""


def find_failure(law: Law, candidate: Candidate, dtype: torch.dtype) -> LawFailure | None:
    """As :func:`law_failure`, without the law: one failure may break several."""
    try:
        with fixed_random_state(dtype):
            law.check(candidate)
        return None
    except PlugInError as error:
        raised = error.__cause__ or error
    except (UserError, LawSkipped, KeyboardInterrupt):
        raise
    except Violation as broken:
        member = broken.member if law.laws.kind == candidate.kind else ""  # else it is of what the part is composed in
        method = f" ({member})" if member else ""
        return LawFailure(_line(candidate, f"{candidate.location(member)}{method}", broken.message))
    except BaseException as error:  # a part may exit
        raised = error
    return LawFailure(_line(candidate, error_place(raised, candidate.info), type_and_text(raised)), is_exception=True)


def _line(candidate: Candidate, location: str, message: str) -> str:
    defaults = {option.name: option.default for option in candidate.info.options}
    options = "".join(
        f" {option}={value}" for option, value in candidate.options.items() if value != defaults.get(option)
    )
    return f"the {candidate.kind} {candidate.name!r}{options}, {location}: {message}"


def check_part(candidate: Candidate) -> list[Outcome]:
    """Check every law of a part with its options, and with each other value of every option that is a choice.

    Raises:
        UserError: no such part, its file cannot be imported, or it rejects its options.
    """
    laws = kind_laws(candidate.kind)
    quick_laws = kind_laws(candidate.kind, quick=True)
    registry.find(candidate.kind, candidate.name)
    if wrong := undeclared(candidate.info):
        failure = LawFailure(f"the {candidate.kind} {candidate.name!r}, {wrong}")
        return [Outcome(laws[0], failure), *(Outcome(law, skip_reason="see above") for law in laws[1:])]
    outcomes: list[Outcome] = []
    is_random = False
    for law in laws:
        if is_random:
            outcomes.append(Outcome(law, skip_reason="calls differ"))
            continue
        # In single precision, too, what is checked in it before a training.
        dtypes = (torch.float64, torch.float32) if law in quick_laws else (torch.float64,)
        outcomes.append(outcome := _outcome(law, candidate, dtypes))
        is_random = law.method == DETERMINISM and bool(outcome.failure and not outcome.failure.is_exception)
    return outcomes


def _outcome(law: Law, candidate: Candidate, dtypes: Sequence[torch.dtype]) -> Outcome:
    for variant, dtype in itertools.product(variants(candidate), dtypes):
        try:
            if failure := find_failure(law, variant, dtype):
                return Outcome(law, failure)
        except LawSkipped as reason:
            return Outcome(law, skip_reason=str(reason))
        except UserError:
            if variant == candidate:
                raise  # other values of its options may contradict its other options
    return Outcome(law)


def check_plug_ins(config: Mapping[str, Any]) -> None:
    """Check every plug-in part of a configuration by the quick laws of its kind, in single precision, as in training.

    Raises:
        UserError: a part breaks a law; the message has its file and line.
    """
    for kind, name, options in used_parts(config):
        info = registry.describe(kind, name)
        if info.origin == "core" or kind not in CLASSES:
            continue
        for law in kind_laws(kind, quick=True):
            with suppress(LawSkipped):
                if failure := law_failure(law, Candidate(kind, name, options), torch.float32):
                    raise UserError(f"{failure}; {advice(info)}")


def used_parts(config: Mapping[str, Any]) -> Iterator[PartWithOptions]:
    """Kind, name and options of every part in a configuration, including parts in options of parts."""
    for part, _, options in chosen_parts(config):
        yield part.kind, part.name, options
        yield from _in_options(options)


def _in_options(options: Mapping[str, Any]) -> Iterator[PartWithOptions]:
    """Parts in options such as ``cross_scorer`` or ``tokenizer``: the option's name ends with the kind."""
    for option, value in options.items():
        kind = next((kind for kind in KINDS if option == kind or option.endswith(f"_{kind}")), None)
        for choice in value if isinstance(value, list) else [value]:
            if kind is not None and isinstance(choice, str | Mapping):
                name, inner = registry.parse_spec(kind, choice)
                if name in registry.names(kind):
                    yield kind, name, inner
