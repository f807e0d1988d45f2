"""The picture of the results: one panel of bars per figure, written as SVG by hand.

Bars start at zero and are linear. One bar that dwarfs all others is cut, and shows the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from statistics import median

from benchmarks.contenders import FAMILIES
from benchmarks.report import Run
from benchmarks.tables import number
from benchmarks.targets import OURS, PEERS, times_as_good
from benchmarks.work import FIGURES, TIMES

WIDTH, MARGIN, GAP = 980, 28, 36
TOP, BAR, PITCH, HEAD = 92, 16, 25, 54
LABEL, VALUE = 150, 66  # room to the left of the bars and to their right
CUT = 6  # a bar so many times as long as the next is cut
OUR_COLOUR, MEMORY_COLOUR, PEER_COLOUR = "#0f766e", "#7cc4bb", "#9aa7b8"
COLOURS = {
    "holdfast/sqlite": OUR_COLOUR,
    "holdfast/postgres": OUR_COLOUR,
    "holdfast/memory": MEMORY_COLOUR,
    "raw/sqlite": "#d8dee6",
    "raw/postgres": "#d8dee6",
}
INK, SOFT, RULE = "#17212b", "#65758a", "#e3e8ee"
FONT = "font-family=\"Inter, 'Helvetica Neue', Helvetica, Arial, sans-serif\""
LIVE_AND_PARKED = "live_kib"


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    value: float
    colour: str
    is_ours: bool


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    note: str
    headline: str
    bars: Sequence[Bar]

    @property
    def height(self) -> int:
        return HEAD + PITCH * len(self.bars) + 26


PANELS = {
    "step_ms": "Chain: one step, p50",
    "steps_s": "Chain: 50 runs at a time",
    "fan_s": "Fan-out: 1,000 steps",
    "pickup_ms": "Pick-up: start to result, p50",
    "resume_ms": "Resume after 1,000 steps",
    LIVE_AND_PARKED: "Waiting: memory a run",
}


def svg(run: Run) -> str:
    """Return the whole picture."""
    panels = [panel for panel in (panel_of(run, key) for key in PANELS) if panel.bars]
    pairs = [panels[i : i + 2] for i in range(0, len(panels), 2)]
    parts, y = [], TOP
    for pair in pairs:
        for column, panel in enumerate(pair):
            parts.append(draw(panel, MARGIN + column * (_panel_width() + GAP), y))
        y += max(panel.height for panel in pair)
    height = y + 14
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" {FONT} role="img">',
            f"<title>Holdfast on {FAMILIES[run.family]} beside its peers</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#ffffff"/>',
            text(MARGIN, 42, "Durable steps in Python, side by side", 22, weight=700),
            text(MARGIN, 66, subtitle(run), 13, SOFT),
            *parts,
            "</svg>\n",
        ]
    )


def subtitle(run: Run) -> str:
    cores = run.machine["processor"].rpartition(", ")[2]
    rounds = f"median of {run.rounds} interleaved rounds" if run.rounds > 1 else "one round"
    python = run.machine["Python"].rpartition(" ")[2]
    return (
        f"Every step's result synced to {FAMILIES[run.family]} before the next begins · {rounds} · "
        f"Python {python}, {cores} · {run.date}"
    )


def panel_of(run: Run, key: str) -> Panel:
    figure = FIGURES[key]
    bars = memory_bars(run) if key == LIVE_AND_PARKED else bars_of(run, key)
    note = f"{figure.unit}, {figure.better} is better"
    return Panel(PANELS[key], note, headline(run, key), bars)


def bars_of(run: Run, key: str) -> list[Bar]:
    bars = []
    for contender in run.contenders:
        value = run.figures.median(contender.name, key)
        if value is None:
            continue
        colour = COLOURS.get(contender.name, PEER_COLOUR)
        is_ours = contender.name == OURS[run.family]
        bars.append(Bar(contender.title, value, colour, is_ours))
    return bars


def memory_bars(run: Run) -> list[Bar]:
    """Live and parked runs in one panel: some engines know only one of the two."""
    return [
        replace(bar, label=f"{bar.label.partition(',')[0]}, {state}")
        for state in ("live", "parked")
        for bar in bars_of(run, f"{state}_kib")
        if bar.colour != MEMORY_COLOUR
    ]


def headline(run: Run, key: str) -> str:
    """Say by what factor Holdfast beats the best peer, where it does."""
    read = times_as_good(key, OURS[run.family], PEERS[run.family])
    factors = run.figures.over_rounds(lambda round_: read(run.figures, round_))
    if not factors or key == LIVE_AND_PARKED or median(factors) < 1.05:
        return ""
    factor = median(factors)
    shown = f"{factor:.0f}" if factor >= 10 else f"{factor:.1f}"
    of_what = (
        "as fast as the best peer" if FIGURES[key].better == "lower" else "the best peer's rate"
    )
    return f"{shown}{TIMES} {of_what}"


def draw(panel: Panel, x: float, y: float) -> str:
    right = x + _panel_width()
    parts = [
        f'<path d="M{x} {y}H{right}" stroke="{RULE}"/>',
        text(x, y + 25, panel.title, 14, weight=600),
        text(x, y + 42, panel.note, 11.5, SOFT),
        text(right, y + 25, panel.headline, 13, OUR_COLOUR, 700, "end"),
    ]
    longest = scale_of(panel.bars)
    for i, bar in enumerate(panel.bars):
        parts.append(draw_bar(bar, x, y + HEAD + i * PITCH, longest))
    return "\n".join(parts)


def draw_bar(bar: Bar, x: float, y: float, longest: float) -> str:
    room = _panel_width() - LABEL - VALUE
    is_cut = bar.value > longest
    length = max(1.5, room * min(1.0, max(0.0, bar.value) / longest))
    left, middle = x + LABEL, y + BAR / 2 + 4.2
    weight = 700 if bar.is_ours else 400
    parts = [
        text(left - 8, middle, bar.label, 12, INK, weight, "end"),
        f'<rect x="{left:.1f}" y="{y:.1f}" width="{length:.1f}" height="{BAR}" rx="2.5" '
        f'fill="{bar.colour}"/>',
        text(left + length + 7, middle, number(bar.value), 12, INK, weight),
    ]
    if is_cut:
        at = left + room * 0.86
        parts.append(
            f'<path d="M{at:.1f} {y + BAR + 2}l6 -{BAR + 4}m5 0l-6 {BAR + 4}" '
            'stroke="#ffffff" stroke-width="2.5"/>'
        )
    return "\n".join(parts)


def scale_of(bars: Sequence[Bar]) -> float:
    """Return the value a full bar stands for.

    That is the largest; or, where one peer dwarfs all others, a little more than the next peer.
    """
    largest = max((bar.value for bar in bars), default=1.0)
    peers = sorted((bar.value for bar in bars if bar.colour == PEER_COLOUR), reverse=True)
    others = [bar.value for bar in bars if bar.value < largest]
    if len(peers) > 1 and peers[0] == largest > CUT * peers[1] and max(others) == peers[1]:
        return peers[1] * 1.25
    return max(largest, 1e-9)


def text(
    x: float, y: float, words: str, size: float, fill: str = INK, weight: int = 400,
    anchor: str = "start",
) -> str:  # fmt: skip
    if not words:
        return ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" '
        f'font-weight="{weight}" text-anchor="{anchor}">{escape(words)}</text>'
    )


def _panel_width() -> float:
    return (WIDTH - 2 * MARGIN - GAP) / 2
