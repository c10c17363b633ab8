"""Prepares the README for a package index, where links relative to the repository lead nowhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Readme(MetadataHookInterface):
    """Sets the readme of the package: README.md, whose links lead to the files of this version on the code host."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the readme to the metadata of ``[project]``."""
        source, tag = metadata["urls"]["Source"], f"v{metadata['version']}"
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = re.sub(r"(!\[[^]]*\]\()(?!https://)", rf"\1{source}/raw/{tag}/", text)
        text = re.sub(r"(\]\()(?!https://)", rf"\1{source}/blob/{tag}/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
