"""What a part is: its kind, its name, its options, and what it declares, as its source says."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, Final

from attnx.errors import UserError
from attnx.registry import plugin_files
from attnx.registry.option_types import OptionType, parse_type

# The package or module of the core's parts, by kind.
KINDS = {
    "scorer": "attnx.attention.scorers",
    "scope": "attnx.attention.scopes",
    "query": "attnx.attention.query_inputs",
    "normalizer": "attnx.attention.normalizers",
    "bias": "attnx.attention.biases",
    "attention": "attnx.attention",
    "mixer": "attnx.mixers",
    "model": "attnx.models",
    "encoder": "attnx.nn.encoders",
    "decoder": "attnx.nn.decoders",
    "readout": "attnx.nn.readouts",
    "output": "attnx.nn.outputs",
    "task": "attnx.tasks",
    "metric": "attnx.metrics",
    "tokenizer": "attnx.data.tokenizers",
    "decoding": "attnx.decoding",
    "optimizer": "attnx.training.optimizers",
    "lr_schedule": "attnx.training.lr_schedules",
    "trainer": "attnx.training.trainer",
    "logger": "attnx.loggers",
    "callback": "attnx.training.callbacks",
}
# Kinds of which several can be chosen at once, each a key of the one node: ``+query=[token,last_context]``.
MULTI_SELECT_KINDS = ("query", "logger", "callback")
# Kinds without laws, and those with laws that `attnx check` tests: the ones whose parts people write most.
UNCHECKED_KINDS = ("attention", "tokenizer", "optimizer", "lr_schedule", "trainer", "logger", "callback")
CHECKED_KINDS = tuple(kind for kind in KINDS if kind not in UNCHECKED_KINDS)

# The origin of parts that a script or a notebook registered.
BY_HAND = "registered in Python"
NO_LITERAL = "needs a literal default (a number, word, list or None)"

PART_NAME = re.compile(r"[^\W\d][\w-]*")
YAML_VALUES = ("null", "true", "false")
NAME_RULE = f"a part's name is one word of letters, digits, _ and -, and none of {', '.join(YAML_VALUES)}"
CONDITION: Final = re.compile(r"(\w+)(!?=)(\S+)")
# Keys beside the parts on which an option may depend, as on options of its own part.
CONDITION_KEYS: Final = ("accel",)
# Declarations of conditions, for options of the part or of others, and of functions by paths, which may be relative.
CONDITIONS: Final = {"read_if", "leaves_unread_if"}
FUNCTIONS: Final = {"check_options", "figures"}


# What parts of each kind must declare, as class attributes; it is read before anything is imported.
REQUIRED: dict[str, dict[str, type]] = {
    "scorer": {"requires_equal_dims": bool},
    "normalizer": {"is_distribution": bool},
    "query": {"needs": str},
    "bias": {"needs_query": bool},
    "output": {"needs_weights": bool},
}
# What they may declare.
OPTIONAL: dict[str, dict[str, type]] = {
    "task": {"baselines": dict, "figures": dict, "pictures": dict, "metric_facts": dict, "check_options": str},
}
WRITTEN = {
    bool: "True or False",
    str: "a word",
    dict: "a dictionary by name",
}


@dataclass(frozen=True)
class Option:
    """A constructor parameter with a default, which the configuration can set."""

    name: str
    annotation: str
    type: OptionType
    default: Any


@dataclass(frozen=True)
class Part:
    """A registered part, described from its source."""

    kind: str
    name: str
    module: str
    file: Path
    line: int
    doc: str
    options: tuple[Option, ...]
    injected_params: tuple[str, ...]
    declarations: dict[str, Any]
    origin: str
    lines: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_conditions(self.declarations.get("read_if", {}), [option.name for option in self.options], self.place)

    @property
    def place(self) -> str:
        """``file:line`` of the part."""
        return f"{self.file}:{self.line}"

    @property
    def package(self) -> str:
        """The package of the part's module, to which the names of modules that it declares are relative."""
        return plugin_files.package(self.module, self.file)

    def doc_line(self, word: str) -> str:
        """The text after ``word:`` in the docstring; every part has ``Formula`` and ``Source``."""
        result = re.search(rf"^{word}:(.*(?:\n[ \t]+\S.*)*)", self.doc, re.MULTILINE)
        return " ".join(result[1].split()).strip("`") if result else ""


def is_part_name(name: object) -> bool:
    """Whether a part can be chosen by a name.

    >>> is_part_name("mlp"), is_part_name("a b"), is_part_name("null")
    (True, False, False)
    """
    return isinstance(name, str) and PART_NAME.fullmatch(name) is not None and name not in YAML_VALUES


def make_option(name: str, annotation: ast.expr | None, default: Any) -> Option:
    """Describe an option; a ValueError if its type is missing or impossible, or its default of another type."""
    if name == "name":
        raise ValueError("is where the configuration names the part; rename it")
    if annotation is None:
        raise ValueError(f"needs a type, such as {name}: int = ...")
    option_type = parse_type(annotation)
    default = list(default) if isinstance(default, tuple) else default
    if not option_type.accepts(default):
        raise ValueError(f"its default {default!r} is not {option_type.phrase}")
    return Option(name, ast.unparse(annotation), option_type, option_type.convert(default))


def check_conditions(conditions: Any, options: Collection[str], place: str) -> None:
    """Check what a part declares as ``read_if``, where ``place`` is its ``file:line``.

    ``{"temperature": "top_k!=1", "size": "keys_from=one_hot|sinusoidal", "rate": ("form=a", "layers!=1")}``
    names an option, or a value of one, ``"precision=tf32"``, and the condition on which it has an effect: words that
    all hold, or a tuple of conditions of which one holds. A value that is not set is ``null``. A condition is on an
    option of the part, or on one of ``CONDITION_KEYS``.

    Raises:
        UserError: it is no such mapping, or names no option of the part.
    """
    if not isinstance(conditions, Mapping):
        raise UserError(f'{place}: read_if is {conditions!r}; expected conditions by option, {{"a": "b!=1"}}')
    for key, alternatives in conditions.items():
        names = [_option(key), *_options_read(alternatives)]
        if wrong := next((word for word in _words(alternatives) if not CONDITION.fullmatch(word)), None):
            raise UserError(f"{place}: read_if has {wrong!r}; write OPTION=VALUE, OPTION=A|B or OPTION!=VALUE")
        if unknown := next((name for name in names if name not in options), None):
            raise UserError(f"{place}: read_if names {unknown!r}, which is no option")


def _words(alternatives: Any) -> list[str]:
    """The words of alternatives of conditions; of anything else, words that are no conditions."""
    is_list = isinstance(alternatives, list | tuple | set)
    return " ".join(map(str, alternatives if is_list else [alternatives])).split()


def _option(word: object) -> str:
    """The option that a condition is on, or whose value it names."""
    return str(word).partition("=")[0].removesuffix("!")


def _options_read(alternatives: Any) -> list[str]:
    """The options of the part itself that alternatives of conditions are on."""
    return [name for word in _words(alternatives) if (name := _option(word)) not in CONDITION_KEYS]


def inherit(
    declared: Mapping[str, Any], options: Collection[str], checked: Collection[str], package: str
) -> dict[str, Any]:
    """What a part with these options inherits of what a base in a package declares.

    Conditions on options that the part lacks are left out, and so is the check of the base's options, ``checked``, if
    it lacks one; the paths of functions are made absolute.
    """
    inherited = dict(declared)
    if not {*checked} <= {*options}:
        inherited.pop("check_options", None)
    for name in CONDITIONS & inherited.keys():
        if isinstance(conditions := inherited[name], Mapping):
            inherited[name] = {
                key: alternatives
                for key, alternatives in conditions.items()
                if {*_options_read(alternatives), *([_option(key)] if name == "read_if" else [])} <= {*options}
            }
    return inherited | {name: _absolute(inherited[name], package) for name in FUNCTIONS & inherited.keys()}


def _absolute(path: Any, package: str) -> Any:
    """The path of a function, or paths by name, that can be imported from any package."""
    if isinstance(path, Mapping):
        return {key: _absolute(value, package) for key, value in path.items()}
    try:
        return resolve_name(path, package) if isinstance(path, str) else path
    except ImportError:  # beyond the package, as the import of the function will say
        return path


def undeclared(part: Part) -> str:
    """The message on a missing or wrong declaration, after ``file:line``; else empty."""
    declared = part.declarations
    for name, type_ in REQUIRED.get(part.kind, {}).items():
        if not isinstance(declared.get(name), type_):
            wrong = f"{name} is {declared[name]!r}" if name in declared else f"it declares no {name}"
            remedy = f"write {name} = {WRITTEN[type_]} in its class"
            return f"{_place(part, name)}: {wrong}; every {part.kind} declares it: {remedy}"
    for name, type_ in OPTIONAL.get(part.kind, {}).items():
        if not isinstance(declared.get(name, type_()), type_):
            return f"{_place(part, name)}: {name} is {declared[name]!r}; write {name} = {WRITTEN[type_]}"
    return ""


def _place(part: Part, name: str) -> str:
    return f"{part.file}:{part.lines.get(name, part.line)}"
