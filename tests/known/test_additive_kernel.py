"""Additive attention in C: numbers by hand, up to the limits of float32; memory; the fallback without a compiler."""

import copy
import math
import os
import pickle
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.profiler import ProfilerActivity, profile

from attnx import accel
from attnx.accel import c_build
from attnx.accel.attention import kernels
from attnx.accel.attention.additive import blocks, cpu
from attnx.attention.factory import build

pytestmark = pytest.mark.skipif(cpu._library() is None, reason="no C compiler")
# Of a block that takes exponentials, and of so few queries that tanh of each sum is taken.
COUNTS = (1, 3, 4, 37)


def by_kernel(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return blocks.additive_scores(cpu.BACKEND, queries, keys, v)


def by_definition(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return torch.tanh(queries[..., :, None, :] + keys[..., None, :, :]) @ v


def outcome(score: Callable[..., Tensor], grad_scores: Tensor, *operands: Tensor) -> list[Tensor]:
    """Scores and the gradients of queries, keys and v, computed in the operands' type."""
    leaves = [operand.detach().requires_grad_() for operand in operands]
    scores = score(*leaves)
    return [scores.detach(), *torch.autograd.grad(scores, leaves, grad_scores.to(scores.dtype))]


def draw_operands(rows: int, queries: int, positions: int, width: int, scale: float = 1.0) -> tuple[Tensor, ...]:
    """Of the scores' gradients, queries, keys and v."""
    generator = torch.Generator().manual_seed(0)
    shapes = (rows, queries, positions), (rows, queries, width), (rows, positions, width), (width,)
    grad_scores, a, b, v = (torch.randn(shape, generator=generator) for shape in shapes)
    return grad_scores, scale * a, scale * b, v


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("a", "b", "tanh"),
    [
        (math.log(2), math.log(1.5), 4 / 5),  # tanh(ln 3) = (9 - 1) / (9 + 1)
        (0.0, 0.0, 0.0),
        (1e-6, 2e-6, 3e-6),  # tanh x = x to x^3 / 3
        (-1e-30, 3e-30, 2e-30),
        (30.0, -30.0, 0.0),
        (1e4, -1e4 + 0.5, math.tanh(0.5)),  # 10000 and 9999.5 are float32 numbers, as are those below
        (60.0, -55.0, math.tanh(5.0)),
        (-60.0, 55.0, -math.tanh(5.0)),
        (19.5, -19.25, math.tanh(0.25)),
        (25.0, -24.75, math.tanh(0.25)),
        (45.0, 0.5, 1.0),  # e^90 is more than float32 can hold
        (0.5, -45.0, -1.0),
        (-3e38, -3e38, -1.0),
        (3e38, -3e38, 0.0),
        (math.inf, 5.0, 1.0),
        (5.0, -math.inf, -1.0),
        (math.inf, -math.inf, math.nan),
        (math.nan, 0.0, math.nan),
    ],
)
def test_scores(a, b, tanh, count):
    """One pair of these stands among ordinary ones, which it must not change: 0 + ln 2 gives 3/5 and v is (10, 5)."""
    queries, keys = torch.zeros(1, count, 2), torch.full((1, 7, 2), math.log(2))
    queries[0, -1, 0], keys[0, -1, 0] = a, b
    scores = by_kernel(queries, keys, torch.tensor([10.0, 5.0]))
    torch.testing.assert_close(scores[0, :-1, :-1], torch.full((count - 1, 6), 9.0))
    expected = torch.tensor(10 * tanh + 3)
    torch.testing.assert_close(scores[0, -1, -1], expected, equal_nan=True)
    if a > 0 > b > -math.inf:
        torch.testing.assert_close(scores[0, -1, -1] - 3, expected - 3, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("far", [0.0, 25.0, 1e4])
def test_gradients(count, far):
    """tanh(ln 2) = 3/5, whose derivative is 16/25; also where it is made of two numbers that nearly cancel."""
    queries, keys = torch.full((1, count, 1), math.log(2) + far), torch.full((1, 7, 1), -far)
    total = (queries[0, 0, 0] + keys[0, 0, 0]).item()  # ln 2, to the digits that are left of it
    _, grad_queries, grad_keys, grad_v = outcome(
        by_kernel, torch.full((1, count, 7), 0.5), queries, keys, torch.tensor([10.0])
    )
    slope = 0.5 * 10 * (1 - math.tanh(total) ** 2)
    torch.testing.assert_close(grad_queries, torch.full((1, count, 1), 7 * slope))
    torch.testing.assert_close(grad_keys, torch.full((1, 7, 1), count * slope))
    torch.testing.assert_close(grad_v, torch.tensor([0.5 * 7 * count * math.tanh(total)]))


@pytest.mark.parametrize("scale", [1e-4, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 1e4])
@pytest.mark.parametrize("sizes", [(2, 1, 5, 7), (3, 17, 19, 23), (2, 37, 131, 97), (31, 5, 67, 16)])
def test_the_error_is_within_bounds(sizes, scale):
    """Against float64, some units of float32's last place of the largest number there is, at every scale of inputs."""
    grad_scores, *operands = draw_operands(*sizes, scale)
    actual = outcome(by_kernel, grad_scores, *operands)
    expected = outcome(by_definition, grad_scores, *(operand.double() for operand in operands))
    for actual_value, exact in zip(actual, expected, strict=True):
        assert (actual_value - exact).abs().max() < 2e-6 * exact.abs().max() + 1e-30


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_values_match_the_definition(count, bad):
    grad_scores, queries, keys, v = draw_operands(2, count, 11, 19)
    queries[1, 0, 5] = keys[0, 3, 7] = bad
    actual, expected = (outcome(score, grad_scores, queries, keys, v) for score in (by_kernel, by_definition))
    for actual_value, expected_value in zip(actual, expected, strict=True):
        torch.testing.assert_close(actual_value, expected_value, equal_nan=True, rtol=1e-4, atol=1e-4)


def test_results_are_bit_identical_for_any_number_of_threads(monkeypatch, set_num_threads):
    monkeypatch.setattr(cpu, "MAX_TERMS_FOR_ONE_THREAD", 0)
    grad_scores, *operands = draw_operands(3, 67, 131, 83)
    first = outcome(by_kernel, grad_scores, *operands)
    for threads in (1, 2, 3, 2, 1):
        set_num_threads(threads)
        again = outcome(by_kernel, grad_scores, *operands)
        assert all(torch.equal(before_value, second) for before_value, second in zip(first, again, strict=True))


def test_strided_rows_are_read_correctly():
    """Views, transposed and repeated operands are read as what they show."""
    _, queries, keys, v = draw_operands(4, 6, 11, 8)
    views = [
        (queries[::2, 1:, ::2], keys[1::2, :, 3:7], v[::2]),
        (queries.mT[:, :, :6], keys.mT[:, :, :6], v[:6]),
        (queries[:1].expand(4, -1, -1), keys[:, :1].expand(-1, 5, -1), v[:1].expand(8)),
        (queries.movedim(0, 1), keys[:1].expand(6, -1, -1), v.flip(0)),
    ]
    for operands in views:
        torch.testing.assert_close(by_kernel(*operands), by_definition(*operands))


def test_second_derivatives_match_the_definition():
    """Of a sum of squares of the gradients, as the definition has them."""
    grad_scores, *operands = draw_operands(2, 5, 7, 11)
    result = []
    for score in (by_kernel, by_definition):
        leaves = [operand.detach().requires_grad_() for operand in operands]
        first = torch.autograd.grad(score(*leaves), leaves, grad_scores, create_graph=True)
        result.append(torch.autograd.grad(sum(item.pow(2).sum() for item in first), leaves))
    for first_item, second in zip(*result, strict=True):
        torch.testing.assert_close(first_item, second, rtol=1e-4, atol=1e-4)


@pytest.fixture
def both():
    """An attention with its kernels, and the same by definition."""
    definition = build(query_size=5, memory_size=11)
    return accel.enable(copy.deepcopy(definition)), definition


def read(attention: Any, queries: Tensor, states: Tensor) -> Tensor:
    return attention(queries, attention.make_memory(states)).context


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_types_match_the_definition(both, dtype):
    """Scores have the type of their operands; by autocast, its type."""
    queries, states = torch.randn(2, 7, 5), torch.randn(2, 13, 11)
    with torch.autocast("cpu", dtype=dtype):
        actual, expected = (read(attention, queries, states) for attention in both)
    assert actual.dtype == expected.dtype == dtype
    torch.testing.assert_close(actual, expected, rtol=0.02, atol=0.02)
    actual, expected = (read(attention.to(dtype), queries.to(dtype), states.to(dtype)) for attention in both)
    assert actual.dtype == expected.dtype == dtype
    torch.testing.assert_close(actual, expected, rtol=0.02, atol=0.02)


def test_vmap_matches_the_definition(both):
    queries, states = torch.randn(3, 2, 7, 5), torch.randn(3, 2, 13, 11)
    actual, expected = (
        torch.func.vmap(lambda *args, attention=attention: read(attention, *args))(queries, states)
        for attention in both
    )
    torch.testing.assert_close(actual, expected)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # of torch's own
def test_forward_derivatives_match_the_definition(both):
    """Of frozen weights, too, for which no gradients are recorded."""
    queries, states, direction = torch.randn(2, 7, 5), torch.randn(2, 13, 11), torch.randn(2, 7, 5)
    tangents = []
    for attention in both:
        with forward_ad.dual_level():
            context = read(attention.requires_grad_(False), forward_ad.make_dual(queries, direction), states)
            tangents.append(forward_ad.unpack_dual(context).tangent)
    assert tangents[1] is not None
    torch.testing.assert_close(*tangents)


def test_a_copied_and_pickled_scorer_matches(both):
    queries, states = torch.randn(2, 7, 5), torch.randn(2, 13, 11)
    for copied in (copy.deepcopy(both[0]), pickle.loads(pickle.dumps(both[0]))):
        assert torch.equal(read(copied, queries, states), read(both[0], queries, states))


def peak(work: Callable[[], Any]) -> int:
    """The most bytes that torch had allocated at a time for some work, its results among them."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        work()
    events = [event for event in watched.profiler.kineto_results.events() if event.name() == "[memory]"]
    total = highest = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        total += event.nbytes()
        highest = max(highest, total)
    return highest


def memory_of(attention: Any, queries: int, positions: int) -> int:
    """Of reading forwards and backwards, of 2 rows and 11 numbers a state."""
    inputs = [torch.randn(2, size, 11, requires_grad=True) for size in (queries, positions)]

    def work() -> None:
        read(attention, *inputs).sum().backward()

    work()  # gradients of the parameters are there from now on
    return peak(work)


def test_memory_grows_with_the_scores():
    """A (q, m, hidden) tensor would be 64 times as large as the scores; there are a few of their size."""
    definition_itself = build(query_size=11, memory_size=11, scorer=("additive", {"hidden_size": 64}))
    ways = accel.enable(copy.deepcopy(definition_itself)), definition_itself
    scores = 4 * 2 * 251 * 257
    result, definition = (memory_of(attention, 251, 257) for attention in ways)
    assert definition > 64 * scores
    assert result < 8 * scores


def test_memory_of_many_scores_grows_with_queries_and_positions(monkeypatch):
    """Twice as many of both are four times the scores, and twice the memory."""
    monkeypatch.setattr(cpu, "BACKEND", cpu.BACKEND._replace(max_scores_to_keep=2**12, scores_per_block=2**12))
    attention: Any = accel.enable(build(query_size=11, memory_size=11, scorer=("additive", {"hidden_size": 16})))
    small, large = memory_of(attention, 251, 257), memory_of(attention, 502, 514)
    assert large < 2.2 * small
    assert large < 4 * 2 * 502 * 514


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An own empty folder for compiled libraries, which only its owner may write."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("ATTNX_CACHE", str(folder))
    return folder


@pytest.fixture
def source(tmp_path):
    """A C file that is quickly compiled."""
    file = tmp_path / "seven.c"
    file.write_text("int seven(void) { return 7; }\n", encoding="utf-8")
    return file


def load_library(source: Path) -> Any:
    """Compile and load as if for the first time in a process."""
    return c_build.compile_library.__wrapped__(source).library


def write_broken_compiler(name: str, folder: Path) -> None:
    """Put a compiler into a folder that fails, but for saying its version."""
    folder.mkdir(exist_ok=True)
    script = folder / name
    script.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\nexit 1\n', encoding="utf-8")
    script.chmod(0o755)


def test_the_library_is_compiled_once(cache, source, monkeypatch):
    """For a source, a processor and flags."""
    times = []
    for _ in range(2):
        assert load_library(source).seven() == 7
        times += [file.stat().st_mtime_ns for file in cache.iterdir()]
    assert times == [times[0]] * 2
    source.write_text("int seven(void) { return 3 + 4; }\n", encoding="utf-8")
    assert load_library(source).seven() == 7
    assert len(list(cache.iterdir())) == 2
    monkeypatch.setattr(c_build, "read_cpuinfo", lambda: {"model name": "another"})
    load_library(source)
    assert len(list(cache.iterdir())) == 3
    monkeypatch.setattr(c_build, "VARIANTS", (("-O1", "-fPIC"),))
    load_library(source)
    assert len(list(cache.iterdir())) == 4


@pytest.mark.parametrize("missing", ["path", "compilers", "source"])
def test_a_missing_compiler_is_reported(missing, cache, source, tmp_path, monkeypatch):
    """None on the path, or none that compiles; or what is no C."""
    folder = tmp_path / "bin"
    if missing == "compilers":
        for name in c_build.COMPILERS:
            write_broken_compiler(name, folder)
    if missing == "source":
        source.write_text("not C\n", encoding="utf-8")
    else:
        monkeypatch.setenv("PATH", str(folder))
    assert load_library(source) is None
    assert not list(cache.iterdir())


def test_a_broken_compiler_is_skipped(cache, source, tmp_path, monkeypatch):
    """Another serves."""
    write_broken_compiler(c_build.COMPILERS[0], tmp_path / "bin")
    if shutil.which("gcc") is None and shutil.which("clang") is None:
        pytest.skip("no compiler but cc")
    monkeypatch.setenv("PATH", str(tmp_path / "bin") + os.pathsep + os.environ["PATH"])
    assert load_library(source).seven() == 7


@pytest.mark.parametrize("system", [("posix", "arm64"), ("nt", "AMD64")], ids=" ".join)
def test_other_systems_have_no_library(system, source, monkeypatch):
    monkeypatch.setattr(c_build.os, "name", system[0])
    monkeypatch.setattr(c_build.platform, "machine", lambda: system[1])
    result = load_library(source)
    monkeypatch.undo()
    assert result is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777 | stat.S_ISVTX])
def test_a_folder_writable_by_other_users_is_not_used(mode, cache, source):
    cache.chmod(mode)
    assert load_library(source).seven() == 7
    assert not list(cache.iterdir())


def test_a_folder_below_a_writable_parent_is_not_used(cache, source, monkeypatch):
    """They could put another in its place; not so where only its owner may, as in /tmp."""
    inner = cache / "inner"
    monkeypatch.setenv("ATTNX_CACHE", str(inner))
    cache.chmod(0o777)
    assert load_library(source).seven() == 7
    assert not list(inner.iterdir())
    cache.chmod(0o777 | stat.S_ISVTX)
    assert load_library(source).seven() == 7
    assert len(list(inner.iterdir())) == 1


def test_a_library_of_another_user_is_not_loaded(cache, source, monkeypatch):
    """A folder of another user's is not looked into."""
    monkeypatch.setattr(c_build.os, "getuid", lambda: 4_000_000_019)
    load_library(source)
    owner = cache.stat().st_uid
    assert bool(list(cache.iterdir())) == (owner == 0)  # root could do anything anyway


@pytest.mark.parametrize("place", ["a file", "nowhere"])
def test_without_a_cache_folder_the_library_is_compiled_per_process(place, source, tmp_path, monkeypatch):
    """Where none can be made, the library is compiled for this process alone."""
    monkeypatch.setenv("ATTNX_CACHE", str(source / "below" if place == "a file" else "/proc/nowhere"))
    assert load_library(source).seven() == 7


@pytest.fixture
def without_compiler(cache, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(kernels, "_failures", {})
    for cached_function in (c_build.compile_library, cpu._library):
        cached_function.cache_clear()
    yield
    for cached_function in (c_build.compile_library, cpu._library):
        cached_function.cache_clear()


@pytest.mark.usefixtures("without_compiler")
def test_attention_without_a_compiler(both, caplog):
    """Another way serves, and one line says why."""
    queries, states = torch.randn(2, 7, 5), torch.randn(2, 13, 11)
    for _ in range(2):
        torch.testing.assert_close(read(both[0], queries, states), read(both[1], queries, states))
    assert cpu._library() is None
    (record,) = caplog.records
    assert record.getMessage() == (
        "the kernel additive cannot be built for cpu and is left out, the next in line computes: "
        "no C compiler (cc, gcc, clang) is on the PATH"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="about Linux's libraries")
def test_the_kernel_uses_torchs_threads(cache):
    """It is parallel, and brings no second OpenMP runtime: it names none, and finds the functions of torch's."""
    library = load_library(Path(cpu.__file__).with_name("additive.c"))
    (file,) = cache.iterdir()
    assert b"GOMP_parallel" in file.read_bytes()
    assert b"libgomp" not in file.read_bytes()
    assert library.additive_scores


def test_a_memory_of_another_width_is_refused():
    """As by the definition: the kernel would read past the keys."""
    narrow, wide = (build(scorer=("additive", {"hidden_size": k}), query_size=13, memory_size=26) for k in (8, 128))
    accel.enable(wide)
    with pytest.raises(RuntimeError, match="size of tensor"):
        wide(torch.randn(2, 20, 13), narrow.make_memory(torch.randn(2, 50, 26)))
