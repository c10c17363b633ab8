"""Compile the kernels of flash-linear-attention that mixers call, forward and backward in bfloat16, without a GPU.

Each is compiled as it is launched, for compute capabilities such as 80 (A100) and 90 (H100), with the first of the
tiles that a GPU would choose from. It takes minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any, NamedTuple

import torch

from attnx import accel, registry
from attnx.accel import mixers

NAMES = ("linear", "retention", "gated_linear", "delta", "gated_delta")
TYPES = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.int32: "*i32", torch.int64: "*i64"}
TYPES |= {int: "i32", float: "fp32"}


class Launch(NamedTuple):
    """A function as it is launched."""

    function: Any
    signature: dict[str, str]
    constants: dict[str, Any]
    options: dict[str, int]


def record_launches(names: list[str]) -> list[Launch]:
    """Each unlike launch of training steps of these mixers; nothing runs."""
    import fla.ops  # noqa: F401
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    launches: dict[str, Launch] = {}

    def record(function: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        values = dict(zip(function.arg_names, args, strict=False))
        values |= {name: options.pop(name) for name in function.arg_names if name in options}
        constants = {param.name: values[param.name] for param in function.params if param.is_constexpr}
        constants |= {name: value for name, value in values.items() if value is None}
        types = {name: TYPES.get(getattr(value, "dtype", type(value)), "constexpr") for name, value in values.items()}
        signature = {name: "constexpr" if name in constants else types[name] for name in function.arg_names}
        launch = Launch(function, signature, constants, options)
        launches[f"{function.__name__} {launch[1:]}"] = launch

    JITFunction.run = record
    Autotuner._bench = lambda *_, **__: [0.0, 0.0, 0.0]
    Autotuner.check_disk_cache = lambda _self, _key, _configs, choose: bool(choose())
    mixers.DEVICE, mixers._failure = "cpu", lambda *_: None
    for name in names:
        mixer = accel.enable(registry.build("mixer", (name, {"heads": 2}), hidden_size=128))
        with torch.autocast("cpu", torch.bfloat16):
            outputs, state = mixer(torch.ones(2, 70, 128, requires_grad=True))
        (outputs.sum() + state.products.sum()).backward()
    return list(launches.values())


def compile_launch(launch: Launch, capability: int) -> str:
    """Compile for a GPU, and describe the result in a line."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    start = time.perf_counter()
    source = ASTSource(launch.function, launch.signature, launch.constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=launch.options)
    seconds = time.perf_counter() - start
    sizes = f"{len(compiled.asm['cubin']):,} bytes, {compiled.metadata.shared:,} bytes of shared memory"
    return f"sm_{capability} {launch.function.__name__}: {sizes}, {seconds:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--capabilities", type=int, nargs="+", default=[80, 90])
    parser.add_argument("--mixers", nargs="+", choices=NAMES, default=NAMES)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of a machine without a GPU
    launches = record_launches(options.mixers)
    for capability in options.capabilities:
        for launch in launches:
            print(compile_launch(launch, capability), flush=True)
    print(f"{len(launches)} launches of {', '.join(options.mixers)}: all compiled")


if __name__ == "__main__":
    main()
