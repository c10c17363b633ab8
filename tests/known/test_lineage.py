"""Bases are read as Python inherits from them: constructors, options and declarations."""

from typing import Any

import pytest

from attnx import registry
from attnx.registry.python_parts import describe_class
from attnx.registry.source_scan import catalog

pytestmark = pytest.mark.usefixtures("no_plugins")


def option_defaults(kind: str, name: str) -> dict[str, Any]:
    """The options of a part with their defaults."""
    return {option.name: option.default for option in catalog().parts[kind, name].options}


BASES = """
from dataclasses import dataclass
from attnx.registry import PositiveInt

@dataclass(frozen=True, kw_only=True)
class Limits:
    about = 3
    length: PositiveInt = 7
    width: int = 2

class Cap:
    requires_equal_dims = True
    def __init__(self, query_size, cap: float = 5.0): ...
"""


def test_bases_are_read(write_plugin):
    """Of the file itself, of another plug-in and of attnx: options and declarations as Python inherits them."""
    write_plugin("_bases.py", BASES)
    write_plugin(
        "derived.py",
        """
        from __future__ import annotations
        from dataclasses import dataclass
        from attnx.attention.scorers.mlp import Mlp
        from attnx.plugins._bases import Cap as Capped, Limits
        from attnx.registry import register

        class Between(Capped):
            requires_equal_dims = False

        @register("decoding", "limited")
        @dataclass(frozen=True)
        class Limited(Limits):
            size: int = 1
            width: int = 4

        @register("scorer", "capped")
        class Mine(Between): ...

        @register("scorer", "steep")
        class Steep(Capped):
            def __init__(self, steep: float = 2.0): ...

        @register("scorer", "deep")
        class Deep(Mlp): ...
        """,
    )
    parts = catalog().parts
    assert catalog().broken == []
    limited, capped, steep = parts["decoding", "limited"], parts["scorer", "capped"], parts["scorer", "steep"]
    assert [(option.name, option.default) for option in limited.options] == [("size", 1), ("width", 4), ("length", 7)]
    assert limited.declarations["about"] == 3
    assert [(option.name, option.default) for option in capped.options] == [("cap", 5.0)]
    assert (capped.injected_params, capped.declarations) == (("query_size",), {"requires_equal_dims": False})
    assert ([option.name for option in steep.options], steep.declarations) == (["steep"], {"requires_equal_dims": True})
    deep, mlp = parts["scorer", "deep"], parts["scorer", "mlp"]
    assert [(option.name, option.default) for option in deep.options] == [
        (option.name, option.default) for option in mlp.options
    ]
    assert deep.declarations == mlp.declarations


def test_a_mistake_in_a_base_is_reported_where_it_is(write_plugin):
    base = write_plugin("_bases.py", "class Base:\n    def __init__(self, width=3): ...\n")
    write_plugin("derived.py", "from attnx.plugins._bases import Base\n@register('scorer', 'a')\nclass A(Base): ...\n")
    assert catalog().broken == [f"{base}:2: option 'width': needs a type, such as width: int = ..."]


SHARED = """
from attnx.registry import Size

class Base:
    requires_equal_dims = True

    def __init__(self, query_size: Size, cap: float = 5.0): ...

class _Hidden(Base): ...
"""


@pytest.mark.parametrize(
    ("lines", "base"),
    [
        ("from . import shared", "shared.Base"),
        ("from attnx.plugins import pack as other", "other.shared.Base"),
        ("from attnx.plugins.pack import shared", "shared.Base"),
        ("import attnx.plugins.pack.shared", "attnx.plugins.pack.shared.Base"),
        ("import attnx.plugins.pack.shared as other", "other.Base"),
        ("from .shared import Base", "Base[int, str]"),
        ("from . import shared", "shared.Base[int]"),
        ("from .shared import Base as Capped\nBase = Capped", "Base"),
        ("from .shared import Base\nCapped: type = Base", "Capped"),
        ("from . import shared\nCapped = shared._Hidden", "Capped"),
        ("from .shared import Base as Mine", "Mine"),
        ("from .shared import *", "Base"),
        ("from .all_names import *\nfrom torch.nn import *", "Base"),
        ("from . import all_names", "all_names.Base"),
        ("try:\n    from .shared import Base\nexcept ImportError:\n    Base = object", "Base"),
        ("try:\n    from fast import Base\nexcept ImportError:\n    from .shared import Base", "Base"),
        ("if TYPE_CHECKING:\n    from .other import Base\nelse:\n    from .shared import Base", "Base"),
    ],
)
def test_a_base_is_read_however_it_is_named(write_plugin, lines, base):
    """Through modules, aliases, and whatever an import may be written as; a class may bear its base's name."""
    write_plugin("shared.py", "")  # not of the package
    write_plugin("pack/__init__.py", "")
    write_plugin("pack/shared.py", SHARED)
    write_plugin("pack/other.py", "class Base: ...\n")
    write_plugin("pack/all_names.py", "from .mine import *\nfrom .shared import *\n")  # of one that imports it
    write_plugin("pack/mine.py", f"{lines}\n@register('scorer', 'mine')\nclass Mine({base}): ...\n")
    assert catalog().broken == []
    part = catalog().parts["scorer", "mine"]
    assert option_defaults("scorer", "mine") == {"cap": 5.0}
    assert (part.injected_params, part.declarations) == (("query_size",), {"requires_equal_dims": True})


@pytest.mark.parametrize(
    "lines", ["from attnx.tasks import g2p", "import attnx.tasks.g2p as g2p", "import attnx\ng2p = attnx.tasks.g2p"]
)
def test_a_base_of_the_core_is_read_in_its_module(write_plugin, lines):
    write_plugin("mine.py", f"{lines}\n@register('task', 'mine')\nclass Mine(g2p.G2p): ...\n")
    assert catalog().broken == []
    assert option_defaults("task", "mine") == option_defaults("task", "g2p")
    assert catalog().parts["task", "mine"].declarations == catalog().parts["task", "g2p"].declarations


@pytest.mark.parametrize(
    ("line", "base"),
    [
        ("from attnx.plugins._nowhere import Base", "Base"),
        ("from .... import Base", "Base"),
        ("", "Missing"),
        ("", "A"),  # itself
        ("from attnx.attention import scorers", "scorers"),
        ("from attnx.attention import scorers", "scorers.dot.Missing"),
        ("def make(): ...", "make()"),
        ("Base = [int][0]", "Base"),
        ("Outer = 3", "Outer.Base"),
    ],
)
def test_a_base_that_cannot_be_read_is_reported(write_plugin, line, base):
    """Unless the class has a constructor of its own, and so its options: the import says the rest."""
    text = f"{line}\n@register('scorer', 'a')\nclass A({base}):\n    "
    file = write_plugin("mine.py", f"{text}requires_equal_dims = True\n")
    assert catalog().broken == [
        f"{file}:3: the base {base} of A cannot be read, and with it the options; import it by its name, "
        "or give A an __init__"
    ]
    write_plugin("mine.py", f"{text}def __init__(self, cap: float = 1.0): ...\n")
    registry.forget_changed()
    assert catalog().broken == []
    assert option_defaults("scorer", "a") == {"cap": 1.0}


def test_a_base_in_a_file_that_is_no_python_is_reported_there(write_plugin):
    base = write_plugin("_bases.py", "def f(:\n")
    write_plugin("mine.py", "from attnx.plugins._bases import Base\n@register('scorer', 'a')\nclass A(Base): ...\n")
    assert catalog().broken == [f"{base}:1: invalid syntax"]


def test_bases_outside_attnx_and_plug_ins_need_no_line(write_plugin):
    write_plugin(
        "foreign.py",
        """
        import collections
        import typing
        from collections import abc, namedtuple
        from numbers import *

        import torch.nn
        from torch import nn

        try:
            from no_such_package import Fast as Quick
        except ImportError:
            Quick = nn.Module
        Layer = torch.nn.Linear

        @register("metric", "a")
        class A(nn.Module, torch.nn.Linear, typing.Generic[T], Layer, Quick, abc.Sized, Number, Exception): ...

        @register("metric", "b")
        class B(namedtuple("B", "x y"), collections.UserDict[str, int]): ...
        """,
    )
    assert catalog().broken == []
    assert {"a", "b"} <= {*catalog().names("metric")}


def test_a_class_that_is_its_own_base_is_broken(write_plugin):
    for name, other in (("one", "two"), ("two", "one")):
        text = f"from attnx.plugins.{other} import Base\n@register('scorer', '{name}')\nclass Base(Base): ...\n"
        file = write_plugin(f"{name}.py", text)
    assert catalog().broken == [f"{file.parent / name}.py:1: a class is its own base" for name in ("one", "two")]


def test_a_constructor_without_parameters_is_a_constructor(write_plugin):
    """It stands before that of a base further up."""
    write_plugin(
        "mine.py",
        """
        class Base:
            def __init__(self, cap: float = 5.0): ...

        class Fixed(Base):
            def __init__(self):
                super().__init__(30.0)

        @register("scorer", "mine")
        class Mine(Fixed): ...
        """,
    )
    assert option_defaults("scorer", "mine") == {}


def test_bases_are_read_in_the_order_of_python(write_plugin):
    """Of four classes in a diamond, the one that all inherit from comes last."""
    text = """
        class Top:
            about, needs_keys = 1, 2
            depth = "top"
            def __init__(self, top: int = 1): ...

        class Left(Top): ...

        class Right(Top):
            depth = "right"
            def __init__(self, right: int = 2): ...

        @register("scorer", "mine")
        class Mine(Left, Right): ...
        """
    write_plugin("mine.py", text)
    assert option_defaults("scorer", "mine") == {"right": 2}
    assert catalog().parts["scorer", "mine"].declarations == {"depth": "right"}


def test_class_variables_of_a_dataclass_are_no_options(write_plugin):
    """They are declarations, and what divides fields is no field."""
    write_plugin(
        "mine.py",
        """
        @register("model", "mine")
        @dataclass(frozen=True)
        class Mine:
            uses: ClassVar[tuple[str, ...]] = ("scorer",)
            reads: typing.ClassVar = ("rows",)
            target: Size
            _: KW_ONLY
            width: int = 3
        """,
    )
    assert catalog().broken == []
    part = catalog().parts["model", "mine"]
    assert (part.injected_params, option_defaults("model", "mine")) == (("target",), {"width": 3})
    assert (part.declarations["uses"], part.declarations["reads"]) == (("scorer",), ("rows",))


REGISTERED = """
from attnx.registry import register

@register("task", "outer", read_if={"rate": "form=slow", "form": "accel=off"}, num_drawn="rate", about="outer")
@register("task", "inner", about="inner", inner=True, check_options=".options.check")
class Base:
    about = "body"
    figures = {"predictions": ".figures.draw", "alignments": "attnx.figures.draw"}

    def __init__(self, rate: float = 1.0, form: str = "fast"): ...
"""


@pytest.mark.usefixtures("new_parts_are_forgotten")
def test_what_a_base_declares_in_its_decorator_is_inherited(write_plugin):
    """As Python inherits attributes; but nothing on options that the part lacks, and paths from the base's package."""
    write_plugin("pack/__init__.py", "")
    write_plugin("pack/bases.py", REGISTERED)
    write_plugin(
        "mine.py",
        """
        from attnx.plugins.pack.bases import Base
        from attnx.registry import register

        class Between(Base):
            num_drawn = "form"

        @register("task", "mine", about="mine")
        class Mine(Between): ...

        @register("task", "other")
        class Other(Between):
            def __init__(self, form: str = "fast"): ...
        """,
    )
    assert catalog().broken == []
    read = {name: catalog().parts["task", name].declarations for name in ("mine", "other")}
    shared = {
        "num_drawn": "form",
        "inner": True,
        "figures": {"predictions": "attnx.plugins.pack.figures.draw", "alignments": "attnx.figures.draw"},
    }
    check_options = "attnx.plugins.pack.options.check"
    assert read == {
        "mine": shared
        | {"about": "mine", "read_if": {"rate": "form=slow", "form": "accel=off"}, "check_options": check_options},
        "other": shared | {"about": "outer", "read_if": {"form": "accel=off"}},
    }
    for name, declarations in read.items():  # which a part that is registered in Python has, too
        assert describe_class("task", name, registry.find("task", name)).declarations == declarations


def test_a_keyword_stands_before_an_attribute(write_plugin):
    """The decorator sets it on the class."""
    write_plugin("mine.py", "@register('query', 'mine', needs='state')\nclass Mine:\n    needs = 'token'\n")
    assert catalog().parts["query", "mine"].declarations == {"needs": "state"}
