"""Gas of named user actions and size of the examples, against the committed ``snapshots/gas.json``.

    python -m benchmarks.gas             measure and print
    python -m benchmarks.gas --check     measure, print, and fail on any difference from the snapshot
    python -m benchmarks.gas --update    measure, print, and rewrite the snapshot and the tables of docs/GAS.md

Every figure is the ``gasUsed`` of a whole transaction. The plain twin (see :mod:`benchmarks.twin`) does the same in the
same run, and must give the same records. Ceilings, the limit of code size, and that nothing grows with earlier runs or
replies, are checked in any case.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import click

from benchmarks import twin
from benchmarks.gas_actions import Measured, measure
from benchmarks.gas_chain import HARDFORK, GasChain
from benchmarks.gas_report import DOCUMENT, with_tables
from provenflow.artifacts import Artifact
from provenflow.errors import Invalid, ProvenflowError
from provenflow.files import write_bytes, write_json
from provenflow.toolchain import SOLC_VERSION

SNAPSHOT: Final = Path("snapshots", "gas.json")
FORMAT: Final = "provenflow-gas/1"
MAX_CODE_SIZE: Final = 20 * 1024

# One previous task or reply, no plaintext, MockAgentVerifier; a contract's first run included.
CEILINGS: Final[Mapping[str, int]] = {
    "run, first of the contract": 150_000,
    "run, later": 150_000,
    "reply, waits for its proof": 140_000,
    "reply, gate silent": 140_000,
    "reply, dispatches the next task": 225_000,
    "late proof, 1 child, input stored": 100_000,
    "late proof, 1 child, input derived": 100_000,
    "proof, dispatches the next task": 175_000,
    "final proof, input stored": 175_000,
    "final proof, input derived": 175_000,
}
EARLIER_RUNS: Final = "by earlier runs"
EARLIER_REPLIES: Final = "by earlier replies"

_UPDATE: Final = "If that is meant, run 'make gas UPDATE=1', commit the snapshot and say why."


@dataclass(frozen=True)
class Figures:
    """One measurement of everything.

    Parameters
    ----------
    packed, plain:
        Gas on the contracts as they are and on their plain twin.
    sizes:
        Bytes of runtime code of every example.
    """

    packed: Measured
    plain: Measured
    sizes: Mapping[str, int]

    def document(self) -> dict[str, Any]:
        """What the snapshot holds; keys are sorted when it is written."""
        return {
            "format": FORMAT,
            "compiler": {"solc": SOLC_VERSION, "evm": HARDFORK},
            "actions": {
                name: {"gas": gas, "twin": self.plain.actions[name]}
                for name, gas in self.packed.actions.items()
            },
            "storage": {name: asdict(use) for name, use in self.packed.storage.items()},
            "growth": {
                name: {
                    str(number): {"gas": gas, "twin": self.plain.growth[name][number]}
                    for number, gas in points.items()
                }
                for name, points in self.packed.growth.items()
            },
            "runtimeBytes": dict(self.sizes),
        }


def take() -> Figures:
    """Compile both, and measure both.

    Raises
    ------
    Invalid
        The contracts do not compile, an action is not what its name says, or the twin's records differ.
    Unreachable
        anvil did not start.
    """
    contracts = twin.compile_contracts(twin=False)
    packed, records = _measure(contracts)
    plain, plain_records = _measure(twin.compile_contracts(twin=True))
    for ours, theirs in zip_longest(records, plain_records):
        if ours != theirs:
            raise Invalid(f"The plain twin gives another record: {theirs} instead of {ours}.")
    sizes = {
        name: len(artifact.deployed_bytecode) // 2 - 1
        for name, artifact in contracts.items()
        if artifact.source_id.startswith("contracts/examples/") and artifact.bytecode
    }
    return Figures(packed, plain, sizes)


def problems_of(figures: Figures) -> list[str]:
    """What is wrong whatever the snapshot says: a ceiling passed, growth where there must be none. A sentence each."""
    found = [
        f"{name} costs {figures.packed.actions[name]:,} gas, over its ceiling of {ceiling:,}."
        for name, ceiling in CEILINGS.items()
        if figures.packed.actions[name] > ceiling
    ]
    found += [
        f"{name} has {size:,} bytes of code, over the limit of {MAX_CODE_SIZE:,}."
        for name, size in figures.sizes.items()
        if size > MAX_CODE_SIZE
    ]
    for name, points in figures.packed.growth.items():
        costs = list(points.values())
        told = ", ".join(f"{number}: {gas:,}" for number, gas in points.items())
        if name.endswith(EARLIER_RUNS) and len(set(costs)) != 1:
            found.append(f"{name}: an action must cost the same, but: {told}.")
        # The first reply to a task may pay for what later ones find done, never the other way round.
        if name.endswith(EARLIER_REPLIES) and (max(costs) != costs[0] or len(set(costs[1:])) != 1):
            found.append(f"{name}: an action must not grow, but: {told}.")
    for wanted in (EARLIER_RUNS, EARLIER_REPLIES):
        if not any(
            name.endswith(wanted) and len(points) > 2 for name, points in figures.packed.growth.items()
        ):
            found.append(f"Nothing was measured {wanted}.")
    return found


def differences(before: Mapping[str, Any], now: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[str]:
    """Where two snapshots differ, a sentence each: what rose, fell, came or went."""
    found: list[str] = []
    for key in sorted({*before, *now}):
        place = (*path, key)
        name = " / ".join(place)
        if key not in now:
            found.append(f"{name} is in the snapshot but is not measured any more.")
        elif key not in before:
            found.append(f"{name} is not in the snapshot.")
        elif isinstance(before[key], dict) and isinstance(now[key], dict):
            found += differences(before[key], now[key], place)
        elif isinstance(before[key], int) and isinstance(now[key], int) and before[key] != now[key]:
            verb = "rose" if now[key] > before[key] else "fell"
            found.append(f"{name} {verb} from {before[key]:,} to {now[key]:,} ({now[key] - before[key]:+,}).")
        elif before[key] != now[key]:
            found.append(f"{name} was {before[key]} and is {now[key]}.")
    return found


def read_snapshot(path: Path) -> dict[str, Any]:
    """The committed snapshot.

    Raises
    ------
    Invalid
        It is missing or not of this format: nothing can be compared, so nothing is said to hold.
    """
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise Invalid(f"{SNAPSHOT} is missing or no JSON.", fix=_UPDATE) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Invalid(f"{SNAPSHOT} is not of format {FORMAT}.", fix=_UPDATE)
    return document


def render(figures: Figures) -> str:
    """Everything measured, as text."""
    lines = [f"{'action':<54}{'gas':>10}{'twin':>10}{'ratio':>7}{'ceiling':>10}"]
    for name, gas in figures.packed.actions.items():
        twin_gas = figures.plain.actions[name]
        ceiling = f"{CEILINGS[name]:,}" if name in CEILINGS else ""
        lines.append(f"{name:<54}{gas:>10,}{twin_gas:>10,}{gas / twin_gas:>7.2f}{ceiling:>10}")
    lines += ["", "growth (gas of the contracts; of the twin in brackets)"]
    for name, points in figures.packed.growth.items():
        told = "  ".join(
            f"{number}: {gas:,} ({figures.plain.growth[name][number]:,})" for number, gas in points.items()
        )
        lines.append(f"  {name}\n    {told}")
    lines += ["", f"runtime code (limit {MAX_CODE_SIZE:,} bytes)"]
    lines += [f"  {name:<52}{size:>10,}" for name, size in figures.sizes.items()]
    return "\n".join(lines)


@click.command()
@click.option("--check", is_flag=True, help="Fail on any difference from the committed snapshot.")
@click.option("--update", is_flag=True, help="Rewrite the committed snapshot and the tables.")
def main(*, check: bool, update: bool) -> None:
    """Measure gas and code size."""
    if check and update:
        raise click.UsageError("Give --check or --update, not both.")
    try:
        figures = take()
        click.echo(render(figures))
        snapshot = twin.root() / SNAPSHOT
        problems = problems_of(figures)
        if check:
            found = differences(read_snapshot(snapshot), figures.document())
            problems += found
            if found:
                problems.append(_UPDATE)
        if problems:
            click.echo()
            for problem in problems:
                click.echo(f"error: {problem}", err=True)
            sys.exit(1)
        if update:
            snapshot.parent.mkdir(exist_ok=True)
            document = json.loads(json.dumps(figures.document(), sort_keys=True))
            text = (twin.root() / DOCUMENT).read_text(encoding="utf-8")
            tables = with_tables(text, document, CEILINGS)
            write_json(snapshot, document)
            write_bytes(twin.root() / DOCUMENT, tables.encode())
            click.echo(f"\nwritten: {SNAPSHOT}, and the tables of {DOCUMENT}")
    except ProvenflowError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)


def _measure(contracts: Mapping[str, Artifact]) -> tuple[Measured, list[str]]:
    with GasChain(contracts) as chain:
        return measure(chain), chain.transcript


if __name__ == "__main__":
    main()
