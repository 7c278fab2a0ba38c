"""``provenflow devnet``: a local chain with the whole suite deployed, until interrupted."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from provenflow.cli.output import HOLDS, INTERRUPTED, emit, guard, print_error
from provenflow.devnet import MAX_BLOCK_TIME, MNEMONIC, Devnet
from provenflow.errors import WrongUse
from provenflow.files import check_writable, write_json

# What ends a program politely; each is the normal end of a devnet.
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Stopped(BaseException):
    """A signal asked the devnet to end."""


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8545, show_default=True, help="TCP port; 0 = any free."
)
@click.option(
    "--block-time",
    type=click.IntRange(1, MAX_BLOCK_TIME),
    metavar="SECONDS",
    help="Seconds between blocks. Default: a block for each transaction.",
)
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write chain id, URL, accounts and contracts with their ABIs to FILE once all is ready.",
)
@click.option("--seed-data", is_flag=True, help="Add a few finished and pending runs.")
def devnet(port: int, block_time: int | None, file: Path | None, seed_data: bool) -> None:
    """Run a local chain (anvil) with the whole suite deployed, until interrupted.

    It listens on 127.0.0.1 only and leaves no process behind. Its accounts are known to everyone.

    \b
    Example:
      provenflow devnet --port 8545 --json devnet.json

    Exit codes: 0 it was interrupted; 2 wrong use, for instance a port that is taken; 3 the chain ended by itself.
    """
    guard(lambda: _serve(port, block_time, file, seed_data))


def _serve(port: int, block_time: int | None, file: Path | None, seed_data: bool) -> int:
    target = None if file is None else _prepared(file)
    ready = False
    with _stop_signals():
        try:
            with Devnet(port=port, block_time=block_time, seed_data=seed_data) as chain:
                if target is not None:
                    write_json(target, chain.document())
                ready = True
                emit(_summary(chain, file))
                chain.wait()
        except _Stopped:
            if ready:
                return HOLDS
            print_error("interrupted before the chain was ready.")
            return INTERRUPTED
    raise AssertionError("wait() returns only by raising")


def _prepared(file: Path) -> Path:
    """The file to write, checked and not there yet: a file that is there means that the chain is ready."""
    if str(file) == "-":
        raise WrongUse("devnet writes a file, not stdout.", fix="Name one: --json devnet.json.")
    target = check_writable(file)
    target.unlink(missing_ok=True)
    return target


def _summary(chain: Devnet, file: Path | None) -> str:
    lines = [f"warning: {warning}" for warning in chain.warnings]
    lines += [f"chain {chain.document()['chainId']} at {chain.url}", "", "contracts"]
    lines += [f"  {name:<28} {contract.address}" for name, contract in chain.contracts.items()]
    lines += ["", f"accounts (unlocked; mnemonic: {MNEMONIC})"]
    lines += [f"  {number} {account}" for number, account in enumerate(chain.accounts)]
    if chain.seeded:
        lines += ["", "runs", *(f"  {line}" for line in chain.seeded)]
    if file is not None:
        lines += ["", f"written to {file}"]
    return "\n".join([*lines, "", "ready; Ctrl-C ends it"])


@contextmanager
def _stop_signals() -> Iterator[None]:
    """Turn the first stopping signal into :class:`_Stopped`, and ignore those that follow while the chain ends."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise _Stopped

    # Under nohup, SIGHUP stays ignored. SIGINT does not: a script's shell ignores it for what it starts in the
    # background, and the chain would outlive an interrupted script.
    before = {
        number: signal.getsignal(number)
        for number in _STOPPING
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
    }
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
