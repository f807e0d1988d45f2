"""Markdown tables that also read well on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

NONE = "\N{EN DASH}"


def number(value: float) -> str:
    """Write a number with about three digits that mean something."""
    size = abs(value)
    if size >= 1_000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 1 or value == 0 else f"{value:.3f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align the columns: words to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    right = [i > 0 and all(_is_numeric(row[i]) for row in rows) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        )
        return f"| {' | '.join(padded)} |"

    rule = (
        "-" * (width - 1) + (":" if to_right else "-")
        for width, to_right in zip(widths, right, strict=True)
    )
    return "\n".join([line(header), f"| {' | '.join(rule)} |", *map(line, rows)])


def _is_numeric(cell: str) -> bool:
    return cell == "" or cell[0].isdigit() or cell[0] in f"{NONE}-✓✗"
