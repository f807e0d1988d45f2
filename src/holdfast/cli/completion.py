"""`holdfast completion`: what a shell needs to complete our commands."""

from __future__ import annotations

import click

from holdfast.cli.terminal import STDOUT

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes commands, workflows, statuses and ids.

    \b
    bash  eval "$(holdfast completion bash)"        in ~/.bashrc
    zsh   eval "$(holdfast completion zsh)"         in ~/.zshrc
    fish  holdfast completion fish | source         in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.BadParameter(f"{shell} cannot be completed", param_hint="SHELL")
    # Not `source()`: that starts a shell to ask for its version.
    script = kind(ctx.find_root().command, {}, "holdfast", "_HOLDFAST_COMPLETE")
    STDOUT.say(script.source_template % script.source_vars())
