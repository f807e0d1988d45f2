"""The pictures of a graph: Mermaid, SVG, and text, with the way of a run on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.fronts.graph.drawing import mermaid

if TYPE_CHECKING:
    from holdfast.fronts.graph.blueprint import Blueprint
    from holdfast.fronts.graph.scene import Scene
    from holdfast.fronts.graph.svg import Theme
    from holdfast.fronts.graph.trail import Trail
    from holdfast.model.events import Event


class Pictured:
    """What a graph can draw of itself. With the events of a run's history, its way is on it."""

    blueprint: Blueprint

    def mermaid(self, events: Sequence[Event] | None = None) -> str:
        """Return the graph as a Mermaid flowchart."""
        return mermaid(self.blueprint, self._trail(events))

    def svg(self, events: Sequence[Event] | None = None, *, theme: Theme = "auto") -> str:
        """Return the graph as SVG, for light and for dark pages, or for one of them."""
        from holdfast.fronts.graph.svg import svg

        return svg(self._scene(events), theme)

    def text(self, events: Sequence[Event] | None = None) -> str:
        """Return the graph as lines for a terminal."""
        from holdfast.fronts.graph.text import text

        return text(self._scene(events))

    def _scene(self, events: Sequence[Event] | None) -> Scene:
        from holdfast.fronts.graph.scene import scene_of

        return scene_of(self.blueprint, self._trail(events))

    def _trail(self, events: Sequence[Event] | None) -> Trail | None:
        from holdfast.fronts.graph.trail import trail_of

        return None if events is None else trail_of(self.blueprint, events)
