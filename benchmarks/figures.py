"""Medians of the rounds, and ratios taken within each round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from benchmarks.rows import Row
from benchmarks.work import FIGURES, Figure

Value = float | None


class Figures:
    """All rows of a run, asked for by contender and figure.

    A peer may be driven in several variants (blocking, async); each figure is taken from the
    variant with the best median, so a peer is always shown at its best.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)

    @property
    def rows(self) -> Sequence[Row]:
        return self._rows

    def rounds(self) -> list[int]:
        return sorted({row.round for row in self._rows})

    def median(self, contender: str, key: str) -> Value:
        values = self._values(contender, key)
        return median(values) if values else None

    def spread(self, contender: str, key: str) -> tuple[float, float] | None:
        values = self._values(contender, key)
        return (min(values), max(values)) if values else None

    def variant(self, contender: str, key: str) -> str:
        """Name the variant a figure comes from."""
        lead = FIGURES[FIGURES[key].follows or key]
        names = {row.variant for row in self._rows_with(contender, lead.key)}
        medians = {name: median(self._of_variant(contender, lead.key, name)) for name in names}
        if not medians:
            return ""
        wanted = lead.best(list(medians.values()))
        return next(name for name in sorted(medians) if medians[name] == wanted)

    def in_round(self, contender: str, key: str, round_: int) -> Value:
        """Return a figure of one round (of several processes, by their median)."""
        variant = self.variant(contender, key)
        rows = self._rows_with(contender, key)
        values = [r.figures[key] for r in rows if r.round == round_ and r.variant == variant]
        return median(values) if values else None

    def best_in_round(self, contenders: Sequence[str], figure: Figure, round_: int) -> Value:
        found = (self.in_round(name, figure.key, round_) for name in contenders)
        values = [value for value in found if value is not None]
        return figure.best(values) if values else None

    def settings(self, contender: str) -> dict[str, str]:
        """Return what was read back; several answers to one setting are all shown."""
        found: dict[str, set[str]] = {}
        for row in self._rows:
            if row.contender == contender:
                for name, value in row.settings.items():
                    found.setdefault(name, set()).add(value)
        return {name: " or ".join(sorted(values)) for name, values in found.items()}

    def machine(self, key: str) -> tuple[float, float, float] | None:
        """Return slowest, median and fastest of a calibration over the whole run."""
        values = [row.machine[key] for row in self._rows if key in row.machine]
        return (min(values), median(values), max(values)) if values else None

    def over_rounds(self, compute: Callable[[int], Value]) -> list[float]:
        return [v for v in (compute(round_) for round_ in self.rounds()) if v is not None]

    def _values(self, contender: str, key: str) -> list[float]:
        return self._of_variant(contender, key, self.variant(contender, key))

    def _of_variant(self, contender: str, key: str, variant: str) -> list[float]:
        rows = self._rows_with(contender, key)
        return [row.figures[key] for row in rows if row.variant == variant]

    def _rows_with(self, contender: str, key: str) -> list[Row]:
        return [r for r in self._rows if r.contender == contender and key in r.figures]
