"""Plug-ins as a package: every file in a plug-in folder is importable as ``attnx.plugins.NAME``.

A real package (rather than files loaded by path) lets data-loader workers and other processes unpickle what a plug-in
made. It holds no name of its own, which a file of that name would take; :mod:`attnx.registry.plugin_files` finds the
files.
"""

from __future__ import annotations

from attnx.registry import plugin_files as _plugin_files

_plugin_files.install()
