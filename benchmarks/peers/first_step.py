"""Train like the ``attnx`` command up to the first step: the process ends after the first optimizer step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from attnx.cli import main

train = main.run


def run(argv: Sequence[str]) -> int:
    """Run the command with a hook on its first step; torch is imported here, after the command has set its threads."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def done(*_: Any) -> None:
        os._exit(0)

    register_optimizer_step_post_hook(done)
    code = train(argv)
    return code or 1  # no step was taken


if __name__ == "__main__":
    main.run = run
    main.main()
