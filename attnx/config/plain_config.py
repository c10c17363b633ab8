"""A composed configuration as plain containers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attnx.errors import UserError

ENVIRONMENT: Final = re.compile(r"\$\{.*\boc\.env\b", re.DOTALL)


def plain_config(config: Any) -> dict[str, Any]:
    """The configuration with its references resolved.

    Raises:
        UserError: a value reads a variable of the environment, which would be written into the run folder.
    """
    from omegaconf import OmegaConf

    for key, value in _texts(OmegaConf.to_container(config, resolve=False)):
        if ENVIRONMENT.search(value):
            raise UserError(
                f"{key}={value}: a value of the environment, which may be a secret, would be written into the run "
                "folder; give the value itself"
            )
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _texts(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """The texts in a value, each with its dotted key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, key)
