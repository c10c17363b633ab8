"""``python -m attnx``."""

from attnx.cli.main import main

main()
