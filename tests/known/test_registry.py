"""The registry: error messages, built parts, and parts registered in a notebook."""

import copy
import sys
import textwrap
import types
from typing import Any

import pytest
import torch

from attnx import registry
from attnx.attention.scorers.mlp import Mlp
from attnx.errors import suggest
from attnx.models.resolve import DataSizes, resolve_model
from tests.refusal import refusal_message

pytestmark = pytest.mark.usefixtures("no_plugins", "new_parts_are_forgotten")


@pytest.fixture
def cell(monkeypatch):
    """Run a notebook's cell: a module without a file, whose annotations are values and not words."""
    notebook = types.ModuleType("a_notebook")
    monkeypatch.setitem(sys.modules, "a_notebook", notebook)

    def run(text: str) -> dict[str, Any]:
        exec(compile(textwrap.dedent(text), "<cell>", "exec", dont_inherit=True), vars(notebook))
        return vars(notebook)

    return run


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("aditive", "unknown scorer 'aditive'; did you mean additive?"),
        ("scale", "unknown scorer 'scale'; did you mean scaled?"),
        ("cosin", "unknown scorer 'cosin'; did you mean cosine?"),
        ("linear", "unknown scorer 'linear', which is the name of another kind of part ("),
        ("zzz", "unknown scorer 'zzz'; choose from activated_general, additive, biased_general,"),
    ],
)
def test_an_unknown_part_is_reported(word, message):
    """The near misses, or all there is where nothing is near."""
    for call in (registry.describe, registry.find):
        assert refusal_message(call, "scorer", word).startswith(message)
    assert refusal_message(registry.check, "scorer", word, {}).startswith(message)
    assert refusal_message(registry.build, "scorer", word).startswith(message)


@pytest.mark.parametrize(
    ("word", "names", "expected"),
    [
        ("windw", ["window", "center"], "; did you mean window?"),
        ("xyz", ["b", "a", "b"], "; choose from a, b"),
        ("xyz", [], ""),
        ("xyz", [f"column {index}" for index in range(201)], ""),
        ("state", ["states", "stats", "other"], "; did you mean states or stats?"),
    ],
)
def test_an_unknown_name_suggests_near_misses(word, names, expected):
    assert suggest(word, names) == expected


COUNT, WIDTH = "expected a whole number, 0 or more", "expected a whole number from 1 to 65,536"
LIST = "expected a list [...] that is not empty, each a whole number, 1 or more"


@pytest.mark.parametrize(
    ("kind", "name", "values", "message"),
    [
        ("scope", "local", {"windw": 3}, "the scope 'local' has no option 'windw'; did you mean window?"),
        ("scorer", "dot", {"size": 3}, "the scorer 'dot' has no option 'size'; it has none"),
        ("scorer", "additive", {"size": 3}, "the scorer 'additive' has no option 'size'; choose from hidden_size"),
        ("scope", "local", {"window": 1.5}, f"scope.window=1.5: {COUNT}"),
        ("scope", "local", {"window": -1}, f"scope.window=-1: {COUNT}"),
        ("scope", "local", {"window": "3"}, f"scope.window=3: {COUNT}"),
        ("scope", "local", {"window": True}, f"scope.window=true: {COUNT}"),
        ("scope", "local", {"center": "predictve"}, "scope.center=predictve: expected one of monotonic, predictive"),
        ("scorer", "additive", {"hidden_size": 0}, f"scorer.hidden_size=0: {WIDTH}"),
        ("scorer", "additive", {"hidden_size": None}, f"scorer.hidden_size=null: {WIDTH}"),
        ("scorer", "mlp", {"hidden_sizes": 64}, f"scorer.hidden_sizes=64: {LIST}"),
        ("scorer", "mlp", {"hidden_sizes": [64, 0]}, f"scorer.hidden_sizes=[64, 0]: {LIST}"),
        (
            "attention",
            "standard",
            {"dropout": 1.0},
            "attention.dropout=1.0: expected a number from 0 up to, not including, 1",
        ),
        ("scorer", "cosine", {"strength": 0}, "scorer.strength=0: expected a number above 0"),
        ("scorer", "cosine", {"learned": 1}, "scorer.learned=1: expected true or false"),
        ("readout", "joint", {"hidden_size": 0}, f"readout.hidden_size=0: {WIDTH} or null"),
    ],
)
def test_invalid_options_are_refused(kind, name, values, message):
    assert refusal_message(registry.check, kind, name, values) == message
    assert refusal_message(registry.build, kind, (name, values), query_size=5, memory_size=7) == message


OPTIONS = "expected the options of a logger"
LISTED = "; choose from artifact, entity, group, offline, project, tags, timeout"
SEARCHED = "; plug-ins were searched in plugins/, and $ATTNX_PLUGINS is not set"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"wandb": False}, f"logger.wandb=false: {OPTIONS}; to leave it out, list the others: logger=[]"),
        (
            {"wandb": None, "csv": False},
            f"logger.csv=false: {OPTIONS}; to leave it out, list the others: logger=[wandb]",
        ),
        ({"wandb": 3}, f"logger.wandb=3: {OPTIONS}"),
        (["wandb"], 'logger=["wandb"]: expected options by name, as in {tensorboard: {}}'),
        ({5: {}}, f"unknown logger '5'; choose from tensorboard, wandb{SEARCHED}"),
        ({"wandb": {5: 3}}, f"the logger 'wandb' has no option 5{LISTED}"),
    ],
)
def test_invalid_members_are_refused(members, message):
    assert refusal_message(registry.check_members, "logger", members) == message
    assert refusal_message(registry.with_defaults, {"logger": members}) == message


def test_a_mutable_default_is_not_shared():
    """Changing a default list changes no other part."""
    registry.check("scorer", "mlp", {})["hidden_sizes"].append(7)
    assert registry.check("scorer", "mlp", {})["hidden_sizes"] == [128]


@pytest.mark.parametrize(
    "choice", ["mlp", ("mlp", {"hidden_sizes": [19]}), {"name": "mlp", "hidden_sizes": [19]}], ids=str
)
def test_a_choice_has_three_spellings(choice):
    """And is not changed."""
    given = copy.deepcopy(choice)
    built = registry.build("scorer", choice, query_size=5, memory_size=7, vocab_size=11)
    assert type(built) is Mlp
    assert built.memory.weight.shape == (128 if choice == "mlp" else 19, 7)
    assert choice == given


def test_a_choice_without_a_name_is_refused():
    assert refusal_message(registry.build, "scope", {"window": 3}).startswith(
        "the scope has no name; choose from encoder_decoder, global, history, local"
    )


def test_a_missing_constructor_argument_is_reported():
    message = refusal_message(registry.build, "scorer", "additive", query_size=5)
    place = registry.describe("scorer", "additive").place
    missing = f"{place}: the scorer 'additive' needs memory_size, which nothing supplies"
    assert message == missing
    message = refusal_message(registry.build, "scorer", "additive", query_size=5, memory_sizes=7)
    assert message == f"{missing}; did you mean memory_sizes?"


def test_unused_arguments_are_not_passed():
    """A scorer without widths is built from the same call as one with them."""
    assert not list(registry.build("scorer", "dot", query_size=5, memory_size=7).parameters())


def test_an_unknown_kind_cannot_be_registered():
    message = refusal_message(registry.register, "scorrer", "mine")
    assert message == "cannot register 'mine': there is no kind 'scorrer'; did you mean scorer or scope?"


SHIFTED = '''
    from torch import nn
    from typing import Literal
    from attnx.registry import NonNegativeInt, PositiveInt, Probability, PositiveFloat, Size, Time, register

    @register("scorer", "shifted")
    class Shifted(nn.Module):
        """The inner product and a number.

        Formula: ``q . m + shift``
        """

        requires_equal_dims = True

        def __init__(self, memory_size: Size, shift: float = 2.0) -> None:
            super().__init__()
            self.shift = shift

        def project_keys(self, memory):
            return memory

        def project_queries(self, queries):
            return queries

        def score(self, queries, keys):
            return queries @ keys.mT + self.shift
'''


def test_a_part_of_a_notebook_is_built(cell):
    """It needs no file: it is named, described, checked and built as any other."""
    cell(SHIFTED)
    assert registry.names("scorer")[-1] == "shifted"
    info = registry.describe("scorer", "shifted")
    assert (info.injected_params, info.declarations["requires_equal_dims"]) == (("memory_size",), True)
    assert [(option.name, option.annotation, option.default) for option in info.options] == [("shift", "float", 2.0)]
    assert info.doc_line("Formula") == "q . m + shift"
    scorer = registry.build("scorer", ("shifted", {"shift": 3.0}), query_size=2, memory_size=2)
    assert scorer.score(torch.ones(1, 2), torch.ones(1, 2)).tolist() == [[5.0]]
    assert refusal_message(registry.check, "scorer", "shifted", {"shift": "x"}) == "scorer.shift=x: expected a number"
    assert refusal_message(registry.describe, "scorer", "shiftd").startswith(
        "unknown scorer 'shiftd'; did you mean shifted?;"
    )


def test_a_part_of_a_notebook_works_in_a_model(cell, build_model):
    cell(SHIFTED)
    model = build_model(scorer=("shifted", {"shift": 7.0}))
    assert model.attention.scorer.shift == 7.0
    assert model.attention.project.weight.shape == (22, 13)


def test_a_cell_may_be_run_again(cell):
    """The class of the last run counts, its options too."""
    for shift in ("2.0", "5.0"):
        made = cell(SHIFTED.replace("2.0", shift))
    assert registry.find("scorer", "shifted") is made["Shifted"]
    assert registry.check("scorer", "shifted", {}) == {"shift": 5.0}


def test_two_classes_of_one_name_are_refused(cell):
    cell(SHIFTED)
    message = refusal_message(cell, SHIFTED.replace("class Shifted", "class Other"))
    assert message == "the scorer 'shifted' is already registered by a_notebook; rename the one in a_notebook"


@pytest.mark.parametrize("imported", [True, False])
def test_the_name_of_a_core_part_is_refused(cell, monkeypatch, imported):
    """Whether or not the core's part was used before."""
    registry.find("scorer", "dot")
    if not imported:
        monkeypatch.delitem(registry._registered, ("scorer", "dot"))
    message = refusal_message(cell, SHIFTED.replace('"shifted"', '"dot"'))
    assert "the scorer 'dot' is already registered" in message


@pytest.mark.parametrize(
    ("annotation", "default", "accepted", "rejected"),
    [
        ("int", "3", 5, 1.5),
        ("bool", "True", False, 1),
        ("str", "'a'", "b", 1),
        ("NonNegativeInt", "3", 0, -1),
        ("PositiveInt", "3", 1, 0),
        ("Probability", "0.5", 0.0, 1.0),
        ("PositiveFloat", "0.5", 2.0, 0.0),
        ("Time", "'00:01:00'", "01:00:00", "1 h"),
        ("Literal['a', 'b']", "'a'", "b", "c"),
        ("list[int]", "[3]", [5], 5),
        ("int | None", "None", 3, "3"),
        ("str | None", "None", "a", 1),
        ("PositiveInt | None", "None", 3, 0),
        ("list[PositiveInt]", "[3]", [5], [0]),
        ("Literal['a', 'b'] | None", "None", "a", "c"),
    ],
)
@pytest.mark.parametrize("as_words", [False, True], ids=["values", "words"])
def test_types_of_a_notebook_are_checked(cell, as_words, annotation, default, accepted, rejected):
    """The types that a part file may use, with annotations that are values and with those that are words."""
    text = SHIFTED.replace("shift: float = 2.0", f"shift: {annotation} = {default}")
    cell("from __future__ import annotations\n" + textwrap.dedent(text) if as_words else text)
    assert registry.check("scorer", "shifted", {"shift": accepted}) == {"shift": accepted}
    assert refusal_message(registry.check, "scorer", "shifted", {"shift": rejected}).startswith("scorer.shift=")


def test_an_unsupported_option_type_is_refused(cell):
    message = refusal_message(cell, SHIFTED.replace("shift: float = 2.0", "shift: dict = {}"))
    assert message.startswith("the scorer 'shifted', option 'shift': an option cannot have the type dict")


def test_a_part_needs_no_constructor(cell):
    """It has no options and needs no arguments, as in a file."""
    start, end = SHIFTED.index("        def __init__"), SHIFTED.index("        def project_keys")
    cell(SHIFTED[:start] + "        shift = 0.0\n\n" + SHIFTED[end:])
    info = registry.describe("scorer", "shifted")
    assert (info.options, info.injected_params) == ((), ())
    assert registry.build("scorer", "shifted", query_size=2, memory_size=2).shift == 0.0


def test_a_function_can_be_a_part(cell):
    cell(
        """
        from attnx.registry import register

        @register("optimizer", "halves")
        def halves(parameters, lr: float = 0.5):
            return [lr * parameter for parameter in parameters]
        """
    )
    assert registry.build("optimizer", "halves", parameters=[2.0, 4.0]) == [1.0, 2.0]


def test_a_model_may_be_registered_without_resolving(cell):
    cell(
        """
        from attnx.registry import Size, Width, register

        @register("model", "answers")
        def answers(target_symbols: Size, config: Size, width: Width = 3):
            return target_symbols, width, config["seed"]
        """
    )
    resolved = resolve_model({"seed": 11, "model": {"name": "answers", "width": 5}})
    assert resolved.build(DataSizes(target_symbols=7)) == (7, 5, 11)
    assert (resolved.sites, resolved.ineffective, resolved.summary()) == ((), {}, {})


SOUND = """\
from attnx.registry import register

@register("scorer", "sound_of_registry")
class Sound:
    requires_equal_dims = False

    def __init__(self, width: int = 3) -> None:
        self.width = width
"""


def test_a_plug_in_is_built(write_plugin):
    write_plugin("registry_sound.py", SOUND)
    assert registry.build("scorer", ("sound_of_registry", {"width": 5}), query_size=2).width == 5


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("from torch import no_such_thing", "ImportError: cannot import name 'no_such_thing'"),
        ("undefined", "NameError: name 'undefined' is not defined"),
    ],
)
def test_a_plug_in_import_error_is_reported(write_plugin, line, message):
    """The line of the file that fails is named, and it is named again the next time."""
    file = write_plugin("registry_failing.py", f"x = 1\n\n{line}\n{SOUND}")
    for _ in range(2):
        assert refusal_message(registry.find, "scorer", "sound_of_registry").startswith(
            f"the scorer 'sound_of_registry', {file}:3: {message}"
        )


def test_a_broken_import_of_a_plug_in_is_reported(write_plugin, tmp_path, monkeypatch):
    """A file that is no Python is named itself."""
    (tmp_path / "lib").mkdir()
    broken_file = tmp_path / "lib" / "half_written_module.py"
    broken_file.write_text("x = 1\ny = (\n")
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    write_plugin("registry_importing.py", f"import half_written_module\n{SOUND}")
    assert refusal_message(registry.find, "scorer", "sound_of_registry").startswith(
        f"the scorer 'sound_of_registry', {broken_file}:2: SyntaxError"
    )


def test_a_name_missing_after_import_is_reported(write_plugin):
    """The source promises a part that importing does not register."""
    file = write_plugin("registry_fickle.py", SOUND + "\nimport attnx.registry\nattnx.registry._registered.popitem()\n")
    message = refusal_message(registry.find, "scorer", "sound_of_registry")
    assert message == (
        f"{file}:4: importing attnx.plugins.registry_fickle did not register the scorer 'sound_of_registry'"
    )
