"""Every Triton kernel compiles without a GPU, with the types of its launches, to code that may be fast."""

import inspect
import itertools
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from attnx.accel.attention.additive.blocks import SINGLE, additive_scores

# The oldest and the newest; on an H100, between them, the kernels run.
CAPABILITIES = {"A100": 80, "B200": 100}
# Of a program, in bytes: CUDA C programming guide, table of technical specifications per compute capability.
MAX_SHARED_MEMORY = {80: 163 * 1024, 100: 227 * 1024}
# A processor of these GPUs starts an instruction of a warp in every cycle, and a reciprocal of a warp in every eighth.
CYCLES_PER_RECIPROCAL = 8


class Launch(NamedTuple):
    """A function as it is launched: types of its arguments, constants, and options of the compiler."""

    name: str
    signature: dict[str, str]
    constants: dict[str, int]
    options: dict[str, int]

    @property
    def pairs_per_thread(self) -> int:
        return self.constants["high"] * self.constants["wide"] // (32 * self.options["num_warps"])


class Program(NamedTuple):
    """A launch, what the compiler reports of it, and its instructions."""

    launch: Launch
    metadata: Any
    ptx: str
    resources: dict[str, int]
    cubin: Path


@pytest.fixture(scope="module")
def module(triton_that):
    return triton_that("compiles")


@pytest.fixture(scope="module")
def functions(module):
    """All that Triton compiles in the modules, by name."""
    tuned, jitted = module.triton.runtime.Autotuner, module.triton.JITFunction
    members = {name: member.fn if isinstance(member, tuned) else member for name, member in vars(module).items()}
    return {name: member for name, member in members.items() if isinstance(member, jitted)}


@pytest.fixture(scope="module")
def recorded_launches(module):
    """Each function as it is launched; nothing runs."""
    launches: list[Launch] = []
    kinds = {torch.float32: "*fp32", torch.uint8: "*u8", int: "i32", float: "fp32"}

    def run(function: Any, *args: Any, grid: Any, warmup: bool, **options: int) -> None:
        by_name = dict(zip(function.arg_names, args, strict=False))
        by_name |= {name: options.pop(name) for name in function.arg_names if name in options}
        constants = {param.name: by_name[param.name] for param in function.params if param.is_constexpr}
        types = {name: getattr(value, "dtype", type(value)) for name, value in by_name.items()}
        signature = {name: "constexpr" if name in constants else kinds[types[name]] for name in function.arg_names}
        launches.append(Launch(function.__name__, signature, constants, {"num_warps": 4} | options))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.triton.JITFunction, "run", run)
        yield launches


@pytest.fixture
def launched(module, recorded_launches):
    """The launches of a call, each once."""

    def launches_of(function: Callable[..., Any], *args: Any) -> list[Launch]:
        recorded_launches.clear()
        function(*args)
        unlike = {str(launch): launch for launch in recorded_launches}
        return [unlike[text] for text in sorted(unlike)]

    return launches_of


def launch_all(module: Any, dtype: torch.dtype) -> None:
    """Scores and all gradients."""
    shapes = (2, 3, 5), (2, 7, 5), (5,)
    queries, keys, v = (torch.ones(shape, dtype=dtype, requires_grad=True) for shape in shapes)
    additive_scores(module.BACKEND, queries, keys, v).sum().backward()


@pytest.fixture(scope="module", params=CAPABILITIES.values(), ids=list(CAPABILITIES))
def capability(request):
    return int(request.param)


@pytest.fixture(scope="module")
def programs(module, functions, recorded_launches, capability, tmp_path_factory):
    """Every launched function, compiled for a GPU with each of its tiles, the first one first, by name."""
    folder = tmp_path_factory.mktemp("triton")
    recorded_launches.clear()
    launch_all(module, torch.float32)
    tiles = dict(zip(PAIRS, (module.SCORE_TILES, module.GRADIENT_TILES), strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        return {
            name: [
                compile_launch(functions[name], tiled, capability, folder)
                for tiled in tiled_launches(launch, tiles.get(name, ()))
            ]
            for name, launch in {launch.name: launch for launch in recorded_launches}.items()
        }


def tiled_launches(launch: Launch, tiles: Sequence[tuple[int, int, int]]) -> Iterator[Launch]:
    """A launch with each of the tiles that it may be tuned to; as it is, if it has none."""
    for high, wide, warps in tiles:
        options = launch.options | {"num_warps": warps}
        yield launch._replace(constants=launch.constants | {"high": high, "wide": wide}, options=options)
    if not tiles:
        yield launch


def compile_launch(function: Any, launch: Launch, capability: int, folder: Path) -> Program:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(function, launch.signature, launch.constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=launch.options)
    cubin = folder / f"{compiled.hash}.cubin"
    cubin.write_bytes(compiled.asm["cubin"])
    resources = re.findall(r"(REG|STACK|LOCAL):(\d+)", output_of("cuobjdump", "-res-usage", cubin))
    sizes = {name: int(value) for name, value in resources}
    return Program(launch, compiled.metadata, compiled.asm["ptx"], sizes, cubin)


def output_of(command: str, *arguments: str | Path) -> str:
    """What a command prints that comes with Triton."""
    import triton

    path = Path(inspect.getfile(triton)).parent / "backends" / "nvidia" / "bin" / command
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=True).stdout


def innermost_loops(lines: list[str]) -> list[Counter[str]]:
    """The operations between each jump back and its label, of loops that contain no other."""
    labels = {match[1]: index for index, line in enumerate(lines) if (match := re.match(r"(\.L_x_\d+):", line))}
    jumps = ((index, re.search(r"BRA[^;]*\((\.L_x_\d+)\)", line)) for index, line in enumerate(lines))
    spans = [(labels[match[1]], index) for index, match in jumps if match and labels[match[1]] < index]
    innermost = [
        span
        for span in spans
        if not any(span != inner and span[0] <= inner[0] and inner[1] <= span[1] for inner in spans)
    ]
    operation = re.compile(r"\s*/\*\w{4,}\*/\s+(?:@!?U?P\w+\s+)?([\w.]+)")
    return [
        Counter(match[1] for line in lines[first:last] if (match := operation.match(line))) for first, last in innermost
    ]


def loops_over_pairs(program: Program) -> list[Counter[str]]:
    """The innermost loops that compute tanh, those with few exponentials first."""
    loops = innermost_loops(output_of("nvdisasm", "-c", program.cubin).splitlines())
    return sorted((loop for loop in loops if loop["MUFU.RCP"]), key=lambda loop: loop["MUFU.EX2"])


PAIRS = ("_scores_kernel", "_gradients_kernel")
"""The kernels that evaluate a tanh for every pair and hidden unit."""


def test_every_kernel_compiles(programs, capability):
    assert set(programs) == {*PAIRS, "_prepare_kernel"}
    for program in itertools.chain(*programs.values()):
        assert f".target sm_{capability}" in program.ptx


def test_registers_and_shared_memory_suffice(programs, capability):
    """No register is spilled to memory, whatever the tile."""
    for program in itertools.chain(*programs.values()):
        assert program.resources["REG"] > 0
        assert program.resources["STACK"] == program.resources["LOCAL"] == 0, program.launch
        assert program.metadata.shared <= MAX_SHARED_MEMORY[capability], program.launch


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_costs_a_reciprocal(programs, name):
    """And no exponential, and with a kernel's first tile so few instructions that they take at most twice as long as
    the reciprocals. The second loop, for numbers out of range, has one exponential a pair."""
    program = programs[name][0]
    by_powers, by_tanh = loops_over_pairs(program)
    pairs = program.launch.pairs_per_thread
    assert (by_powers["MUFU.RCP"], by_powers["MUFU.EX2"]) == (pairs, 0)
    assert by_powers.total() <= 2 * CYCLES_PER_RECIPROCAL * pairs
    assert (by_tanh["MUFU.RCP"], by_tanh["MUFU.EX2"]) == (pairs, pairs)


def test_every_function_is_launched_or_called(module, functions, launched):
    names = {launch.name for launch in launched(launch_all, module, torch.float32)}
    called = {
        name for name in functions if any(f"{name}(" in functions[caller].src for caller in functions if caller != name)
    }
    assert names | called == set(functions)
    assert not names & called


@pytest.mark.parametrize("dtype", SINGLE)
def test_all_types_share_one_program(module, launched, dtype):
    """Narrower types are widened before, so that what is built for float32 is all there is to build."""
    expected = launched(launch_all, module, torch.float32)
    assert launched(launch_all, module, dtype) == expected


def test_all_sizes_and_addresses_share_one_program(functions):
    """What is built on one number serves every read: sizes of 1, or divisible by 16, are not compiled for again."""
    for function in functions.values():
        parameters = [param for param in function.params if not param.is_constexpr]
        assert parameters
        assert all(value.do_not_specialize and value.do_not_specialize_on_alignment for value in parameters)


def test_building_launches_every_kernel(module, launched):
    """A kernel that cannot be built for the gradients is not begun with."""
    assert launched(module.compile_kernels, torch.device("cpu")) == launched(launch_all, module, torch.float32)


def test_any_number_of_rows_fits_into_a_grid(module, monkeypatch):
    """A GPU has room for 2^31 programs along the first axis of a grid, and for 65,535 along the others."""
    grids: list[tuple[int, ...]] = []

    def run(function: Any, *args: Any, grid: Any, **options: Any) -> None:
        grids.append(grid({"high": 1, "wide": 32}) if callable(grid) else grid)

    monkeypatch.setattr(module.triton.JITFunction, "run", run)
    few, many = (torch.ones(2, count, 1, requires_grad=True) for count in (3, 70_001))
    for queries, keys in ((few, many), (many, few)):
        additive_scores(module.BACKEND, queries, keys, torch.ones(1)).sum().backward()
    assert max(first for first, *_ in grids) == 2 * 70_001
    assert all(size < 2**16 for _, *behind_first in grids for size in behind_first)


def test_sizes_of_like_magnitude_share_a_choice_of_tile(module):
    """Tiles are tuned for each magnitude, and not for each length of a sentence."""
    sizes = itertools.product((1, 2, 3, 64, 127), repeat=2)
    classes = {(batch.bit_length(), steps.bit_length()): module.classify_sizes(batch, steps) for batch, steps in sizes}
    assert len(set(classes.values())) == len(classes) == 9
    assert module.classify_sizes(64, 100) == module.classify_sizes(127, 65)
