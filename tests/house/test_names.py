"""House rules of names and shapes: words, lengths of bodies, parameters, types."""

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.house.sources import nodes, parse

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "attnx"
FILES = sorted(PACKAGE.rglob("*.py"))
NAMED_FILES = [*FILES, *(file for name in ("tests", "benchmarks") for file in sorted((ROOT / name).rglob("*.py")))]
MAX_BODY_LINES = 60
MAX_PARAMETERS = 7
ROOT_FILES = {"__init__.py", "__main__.py", "errors.py", "version.py"}
FORBIDDEN_WORDS = {"told", "said", "found"}


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(file):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def is_registered(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return any(
        ast.unparse(decorator).startswith(("register(", "registry.register(")) for decorator in node.decorator_list
    )


def constructors(file: Path) -> Iterator[tuple[str, ast.FunctionDef, bool]]:
    """The constructor of each class: the name of the class, the function, and whether the class is registered."""
    for node in nodes(file):
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and member.name == "__init__":
                    yield node.name, member, is_registered(node)


def defined_names(file: Path) -> Iterator[tuple[int, str]]:
    """Every identifier that a file defines: functions, classes, parameters, variables and attributes."""
    for node in nodes(file):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def test_a_name_says_what_it_holds():
    """A gradient is ``grad_x``, never ``of_x``."""
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in NAMED_FILES
        for line, name in defined_names(file)
        if name.strip("_").lower() in FORBIDDEN_WORDS or name.startswith("of_")
    ]
    assert not wrong, "\n".join(wrong)


def forwards(file: Path) -> set[ast.FunctionDef]:
    """The ``forward`` of each class that is a ``nn.Module``."""
    return {
        member
        for node in nodes(file)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Module") for base in node.bases)
        for member in node.body
        if isinstance(member, ast.FunctionDef) and member.name == "forward"
    }


def test_a_body_fits_on_a_screen():
    """What a module computes may take longer to write down. Ruff bounds the complexity of all."""
    wrong = []
    for file in FILES:
        for function in set(functions(file)) - forwards(file):
            body = function.body[1:] if ast.get_docstring(function) else function.body
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            if lines > MAX_BODY_LINES:
                wrong.append(f"{file.relative_to(ROOT)}:{function.lineno}: {function.name} has {lines} lines")
    assert not wrong, "\n".join(wrong)


class Signature(NamedTuple):
    """The number of parameters of a function; of a class without a constructor that of its fields."""

    parameters: int
    has_fields: bool = False


@functools.cache
def signatures(file: Path) -> dict[str, Signature]:
    """What a file defines, methods as ``Class.method``; what takes any number of arguments is left out."""
    result: dict[str, Signature] = {}
    for node in parse(file).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        if isinstance(node, ast.ClassDef):
            result[node.name] = Signature(sum(isinstance(member, ast.AnnAssign) for member in members), has_fields=True)
        for function in members:
            if isinstance(function, ast.FunctionDef) and function.args.vararg is None:
                name = f"{node.name}.{function.name}" if isinstance(node, ast.ClassDef) else function.name
                result[name.removesuffix(".__init__")] = Signature(len(parameters(function)))
    return result


def splats(file: Path, public: Mapping[str, Signature]) -> Iterator[str]:
    """The calls that spread a tuple over the parameters of a function with more than two.

    A tuple of fields may be made of all its fields at once: ``Batch(*map(torch.from_numpy, arrays))``.
    """
    tree = parse(file)
    known = {**public, **signatures(file)}
    owners = {node: owner.name for owner in tree.body if isinstance(owner, ast.ClassDef) for node in ast.walk(owner)}
    for node in nodes(file):
        if isinstance(node, ast.Call) and any(isinstance(argument, ast.Starred) for argument in node.args):
            name = ast.unparse(node.func).removeprefix("registry.")
            signature = known.get(f"{owners.get(node)}.{name[5:]}" if name.startswith("self.") else name, Signature(0))
            is_remade = signature.has_fields and len(node.args) == 1 and not node.keywords
            if signature.parameters > 2 and not is_remade:
                yield f"{file.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}"


def test_no_tuple_stands_for_parameters():
    """``f(*sizes, *ranking)`` hides how many parameters f has."""
    public = {name: known for file in FILES for name, known in signatures(file).items() if name[0] != "_"}
    calls = [line for file in FILES for line in splats(file, public)]
    assert not calls, "\n".join(calls)


def test_a_constructor_has_few_parameters():
    """Options of registered parts aside: they are options, each with a default."""
    wrong = [
        f"{file.relative_to(ROOT)}: {name} takes {len(parameters(constructor))} parameters"
        for file in FILES
        for name, constructor, is_part in constructors(file)
        if not is_part and len(parameters(constructor)) > MAX_PARAMETERS
    ]
    assert not wrong, "\n".join(wrong)


def test_a_registered_part_reads_its_parameters():
    """A name that is only deleted is not read."""
    wrong = []
    for file in FILES:
        registered = [(name, function) for name, function, is_part in constructors(file) if is_part]
        registered += [(function.name, function) for function in functions(file) if is_registered(function)]
        for name, function in registered:
            body = [node for statement in function.body for node in ast.walk(statement)]
            read = {node.id for node in body if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
            unused = [parameter for parameter in parameters(function) if parameter not in read]
            wrong += [f"{file.relative_to(ROOT)}: {name} does not read {parameter}" for parameter in unused]
    assert not wrong, "\n".join(wrong)


def test_an_attribute_has_a_type():
    """``Any`` would end where a reader wants to go to a definition."""
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node.target)}: Any"
        for file in FILES
        if file.relative_to(PACKAGE).parts[0] in ("attention", "nn", "models")
        for node in nodes(file)
        if isinstance(node, ast.AnnAssign)
        and ast.unparse(node.annotation) == "Any"
        and isinstance(node.target, ast.Attribute)
    ]
    assert not wrong, "\n".join(wrong)


def test_few_public_names_have_two_modules():
    """A name that several modules define leads a search astray. A command has ``run`` and ``add_arguments``."""
    modules: dict[str, list[str]] = {}
    for file in FILES:
        for node in parse(file).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(str(file.relative_to(PACKAGE)))
    repeated = {name: places for name, places in modules.items() if len(places) > 1}
    assert len(repeated) < 15, "\n".join(f"{name}: {', '.join(places)}" for name, places in repeated.items())


def test_the_root_has_four_files():
    assert {file.name for file in PACKAGE.glob("*.py")} == ROOT_FILES
