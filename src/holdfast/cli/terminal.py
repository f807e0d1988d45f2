"""What is printed, and for whom: a person at a terminal, or a program.

A person gets aligned columns, colour and the next command; a program gets tab-separated fields
without colour, never cut. NO_COLOR, FORCE_COLOR and COLUMNS are honoured.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TextIO
from unicodedata import combining, east_asian_width

import click

GAP = "  "


class Terminal:
    """One of the two output streams."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def stream(self) -> TextIO:
        """The stream as it is now: a test may have replaced it."""
        stream: TextIO = getattr(sys, self._name)
        return stream

    @property
    def is_person(self) -> bool:
        """Tell whether somebody reads this."""
        return os.environ.get("FORCE_COLOR", "") not in ("", "0") or self.stream.isatty()

    @property
    def has_colour(self) -> bool:
        """Tell whether colour is wanted and can be shown."""
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return False
        return self.is_person

    @property
    def width(self) -> int:
        """How many columns there are."""
        return shutil.get_terminal_size((100, 24)).columns

    @property
    def height(self) -> int:
        """How many lines there are."""
        return shutil.get_terminal_size((100, 24)).lines

    def style(self, text: str, **style: Any) -> str:
        """Return the text in colour, if there is colour here."""
        return click.style(text, **style) if text and style and self.has_colour else text

    def dim(self, text: str) -> str:
        """Return what matters less."""
        return self.style(text, fg="bright_black")

    def say(self, line: str = "") -> None:
        """Print one line."""
        click.echo(line, file=self.stream, color=self.has_colour)

    def next_commands(self, commands: Sequence[tuple[str, str]]) -> None:
        """Print what a person may type next, each with what it does."""
        room = max((width_of(command) for command, _ in commands), default=0)
        for number, (command, meaning) in enumerate(commands):
            label = "Next: " if number == 0 else "      "
            typed = self.style(padded(command, room), fg="cyan")
            self.say(f"{GAP}{self.dim(label)}{typed}{GAP}{self.dim(meaning)}".rstrip())


STDOUT = Terminal("stdout")
STDERR = Terminal("stderr")


class Cell(NamedTuple):
    """A text and its style."""

    text: str
    style: Mapping[str, Any] = {}


class Column(NamedTuple):
    """`drop` is the order in which columns go when the terminal is narrow; 0 stays."""

    title: str
    right: bool = False
    drop: int = 0
    cut: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Return the lines of an aligned table without boxes, no wider than the terminal."""
    shown = _fitting(columns, rows, STDOUT.width)
    widths = {place: _width_of_column(columns, rows, place) for place in shown}
    spare = STDOUT.width - _total(widths.values())
    if spare < 0:
        for place in shown:
            if columns[place].cut:
                widths[place] = max(widths[place] + spare, 8)
    header = [_fit(columns[p].title.upper(), widths[p], columns[p].right) for p in shown]
    lines = [STDOUT.dim(GAP.join(header).rstrip())]
    for row in rows:
        cells = [_fit(row[place].text, widths[place], columns[place].right) for place in shown]
        cells[-1] = cells[-1].rstrip()
        styles = (row[place].style for place in shown)
        drawn = (STDOUT.style(cell, **style) for cell, style in zip(cells, styles, strict=True))
        lines.append(GAP.join(drawn).rstrip())
    return lines


def _fitting(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], room: int) -> list[int]:
    shown = list(range(len(columns)))
    droppable = sorted((p for p in shown if columns[p].drop), key=lambda p: columns[p].drop)
    cut = {place for place in shown if columns[place].cut}
    for place in droppable:
        sizes = [8 if p in cut else _width_of_column(columns, rows, p) for p in shown]
        if _total(sizes) <= room:
            break
        shown.remove(place)
    return shown


def _width_of_column(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], place: int) -> int:
    texts = (width_of(row[place].text) for row in rows)
    return max(width_of(columns[place].title), max(texts, default=0))


def _total(widths: Iterable[int]) -> int:
    sizes = list(widths)
    return sum(sizes) + len(GAP) * max(len(sizes) - 1, 0)


def _fit(text: str, width: int, right: bool) -> str:
    text = cut(text, width)
    return " " * (width - width_of(text)) + text if right else padded(text, width)


def cut(text: str, width: int) -> str:
    """Return the text, shortened with an ellipsis if it is wider."""
    if width_of(text) <= width:
        return text
    kept = text[: max(width - 1, 0)]
    while width_of(kept) > width - 1:
        kept = kept[:-1]
    return kept + "…"


def padded(text: str, width: int) -> str:
    """Return the text with spaces up to the width."""
    return text + " " * max(width - width_of(text), 0)


def width_of(text: str) -> int:
    """Return how many columns the text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def clean(text: str) -> str:
    """Return one line that can do no harm to a terminal, whatever a user's error held."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "·" for c in text)


def fields(*values: object) -> str:
    """Return a line for programs: fields separated by tabs."""
    return "\t".join("" if value is None else clean(str(value)) for value in values)
