"""The plug-in examples of docs/add-a-part.md for encoder, decoder, output, task and callback."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnx.config.compose import compose

PAGE = Path(__file__).parents[2] / "docs" / "add-a-part.md"
EXAMPLES = {
    kind: (name, text)
    for kind, name, text in re.findall(
        r"^```python\n# (\w+): plugins/(\w+)\.py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S
    )
}


@pytest.mark.parametrize("kind", ["encoder", "decoder", "output", "task"])
def test_an_example_obeys_the_laws(
    kind: str, work_folder: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, text = EXAMPLES[kind]
    (work_folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("ATTNX_PLUGINS", str(work_folder))
    answer = command("check", f"{kind}={name}")
    assert (answer.code, answer.err) == (0, ""), answer


def test_the_callback_clips_the_norms(
    work_folder: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, text = EXAMPLES["callback"]
    (work_folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("ATTNX_PLUGINS", str(work_folder))
    overrides = [f"callback=[{name}]", f"callback.{name}.max_norm=0.25"]
    model = run(*overrides, "trainer.max_steps=2", folder="limited").model
    norms = [weight.norm(dim=1).max() for weight in model.parameters() if weight.dim() == 2]
    assert max(norms) <= 0.25 * (1 + 1e-5)
    assert compose(overrides)["callback"] == {name: {"max_norm": 0.25}}


def test_an_empty_callback_list_composes() -> None:
    assert compose(["callback=[]"])["callback"] == {}
