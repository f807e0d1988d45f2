"""A group of commands whose modules are imported when they are typed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """`lazy` maps a name to its module, which calls the command `command`, and its help."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in self._lazy:
            return None
        module, _, name = self._lazy[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name or "command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one was probably meant."""
        is_known = args[0] in self._lazy or args[0].startswith("-")
        if not is_known and not ctx.resilient_parsing and (meant := self._meant(ctx, args[0])):
            ctx.fail(f"No such command {args[0]!r}. Did you mean `{ctx.command_path} {meant}`?")
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, name: str) -> str:
        """Return a command of that name one level below, or a name of this level that is near."""
        from holdfast.errors import nearest

        for group in self._lazy:
            command = self.get_command(ctx, group)
            if isinstance(command, click.Group) and name in command.list_commands(ctx):
                return f"{group} {name}"
        return nearest(name, self._lazy)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names without importing any; options as every command does."""
        from click.shell_completion import CompletionItem

        names = [(name, text) for name, (_, text) in self._lazy.items()]
        items = [CompletionItem(name, help=text) for name, text in names]
        found = [item for item in items if item.value.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of every command without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._lazy.items()])
