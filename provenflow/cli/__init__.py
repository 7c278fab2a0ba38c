"""The ``provenflow`` command: a thin shell over the modules of the package.

Subcommands are imported when they are called, so that one of them cannot slow down or break another.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

from provenflow import __version__
from provenflow.cli.output import CommandGroup, emit, failure_document, guard

_COMMANDS = {
    "devnet": "provenflow.cli.devnet",
    "evidence": "provenflow.cli.evidence",
}
# `devnet --json FILE` writes the chain's facts to FILE; everywhere else --json is a flag that asks for a document.
_JSON_NAMES_A_FILE = frozenset({"devnet"})


class RootGroup(CommandGroup):
    """The root command: loads subcommands late and turns every failure into one sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(importlib.import_module(_COMMANDS[cmd_name]), cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{_COMMANDS[cmd_name]}.{cmd_name} is not a command")
        return command

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002 - errors are told in one way, whoever calls
        **extra: Any,
    ) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        run = super().main

        def body() -> int:
            result = run(words, prog_name or "provenflow", complete_var, standalone_mode=False, **extra)
            return result if isinstance(result, int) else 0

        def failed(code: int, sentence: str) -> None:
            if "--json" in words and words[0] not in _JSON_NAMES_A_FILE:
                name = " ".join(_command_words(words))
                emit(failure_document(name, code, sentence))

        guard(body, failed)


def _command_words(words: list[str]) -> list[str]:
    """The leading words that name the command: those before the first option, at most two."""
    named = []
    for word in words[:2]:
        if word.startswith("-"):
            break
        named.append(word)
    return named


@click.group("provenflow", cls=RootGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="provenflow", message="%(prog)s %(version)s")
def main() -> None:
    """Verifiable AI-agent execution on EVM chains (ERC-8301).

    \b
    Examples:
      provenflow devnet --json devnet.json
      provenflow evidence verify --rpc http://127.0.0.1:8545 --contract ADDR --run ID

    Exit codes: 0 it holds; 1 it was read and does not hold; 2 wrong use; 3 it could not be read or reached.
    """
