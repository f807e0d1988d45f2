"""The command line: one file per noun, each loaded when it is typed."""

from holdfast.cli.entry import main

__all__ = ["main"]
