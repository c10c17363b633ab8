"""The plug-in examples of docs/add-a-part.md for encoder, decoder, readout and output keep the laws of their kinds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "add-a-part.md"
EXAMPLES = {
    kind: (name, text)
    for kind, name, text in re.findall(
        r"^```python\n# (\w+): plugins/(\w+)\.py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S
    )
}


@pytest.mark.parametrize("kind", ["encoder", "decoder", "readout", "output"])
def test_an_example_keeps_the_laws(kind: str, tmp_path: Path) -> None:
    name, text = EXAMPLES[kind]
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "attnx", "check", f"{kind}={name}"],
        env={**os.environ, "ATTNX_PLUGINS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
