"""``ape run deploy``: deploy the suite to the network that Ape is connected to, and record it in ``deployments/``.

On a local chain the mocks are part of the suite. On any other network they are refused, and the workflows need a real
verifier. The routine is :mod:`provenflow.deployment`, the same that the tests and the devnet use.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from ape import accounts, networks, project
from ape.cli import ConnectedProviderCommand, account_option
from ape.exceptions import ApeException

from provenflow import artifacts, deployment
from provenflow.build import ensure_compiled
from provenflow.cli.output import emit, guard
from provenflow.deployers import ApeDeployer
from provenflow.deployment import Deployed
from provenflow.errors import Unreachable, WrongUse
from provenflow.toolchain import checkout_root


class DeployCommand(ConnectedProviderCommand):
    """Tells every failure, one to connect included, in one sentence."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        made: list[click.Context] = []
        make = super().make_context

        def body() -> int:
            made.append(make(*args, **kwargs))
            return 0

        try:
            guard(body)
        except SystemExit:
            if not made:
                raise
        return made[0]

    def invoke(self, ctx: click.Context) -> Any:
        connected = super().invoke

        def body() -> int:
            try:
                connected(ctx)
            except ApeException as trouble:
                raise Unreachable(
                    f"The network could not be used ({' '.join(str(trouble).split()).rstrip('.')}).",
                    fix="Check --network and that its node is running.",
                ) from trouble
            return 0

        guard(body)


@click.command(cls=DeployCommand)
@account_option(prompt=False)
@click.option(
    "--verifier",
    metavar="ADDR",
    help="ERC-8274 agent verifier of the workflows. Default: the mock, if local.",
)
@click.option(
    "--only", metavar="NAME", multiple=True, help="Deploy this contract and what it needs. May be repeated."
)
@click.option(
    "--force", is_flag=True, help="Deploy again what is recorded; earlier entries are kept as 'replaced'."
)
@click.option("--dry-run", is_flag=True, help="Say what would be deployed, and send nothing.")
@click.option(
    "--records",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("deployments"),
    help="Where the record is written. Default: deployments.",
)
def cli(
    account: Any, verifier: str | None, only: tuple[str, ...], force: bool, dry_run: bool, records: Path
) -> None:
    """Deploy the suite and record it in deployments/.

    \b
    Examples:
      ape run deploy
      ape run deploy --network http://127.0.0.1:8545 --only SingleStageWorkflow
      ape run deploy --network ethereum:sepolia:node --account NAME --verifier ADDR --dry-run

    The record is deployments/<chain id>.json, written once everything is deployed.
    """
    if checkout_root() != project.path:
        raise WrongUse(
            f"The installed provenflow is not that of {project.path}.",
            fix="Activate the .venv of this checkout.",
        )
    ensure_compiled(project)
    deployer = ApeDeployer(_account(account), project, networks.provider)
    local = deployment.is_local(deployer)
    steps = deployment.plan(local=local, verifier=verifier, only=only)
    emit(f"network {deployer.network}, chain {deployer.chain_id}{' (local)' if local else ''}")
    emit(f"account {deployer.account}")
    if dry_run:
        deployment.check(deployer, steps, artifacts.load_all(), verifier)
        emit("\n".join(["would deploy", *(f"  {deployment.describe(step, verifier)}" for step in steps)]))
        return
    try:
        deployment.deploy(deployer, steps, verifier=verifier, records=records, force=force, progress=_tell)
    except KeyboardInterrupt:
        partial = records / f"{deployer.chain_id}.partial.json"
        if partial.exists():
            emit(f"what was deployed before the interruption is kept in {partial}")
        raise
    emit(f"recorded in {records / f'{deployer.chain_id}.json'}")


def _account(chosen: Any) -> Any:
    """The deploying account: the one chosen, or the first development account on a local network.

    Raises
    ------
    WrongUse
        None was chosen and the network is not local.
    """
    if chosen is None:
        provider = networks.provider
        if int(provider.chain_id) not in deployment.LOCAL_CHAIN_IDS:
            raise WrongUse(
                f"Chain {provider.chain_id} needs an account.",
                fix="Give one of 'ape accounts list' with --account.",
            )
        return accounts.test_accounts[0]
    if os.environ.get(f"APE_ACCOUNTS_{chosen.alias}_PASSPHRASE"):
        # The passphrase was put there for runs without a person; Ape would still ask before each signature.
        chosen.set_autosign(True)
    return chosen


def _tell(name: str, deployed: Deployed) -> None:
    emit(f"  {name:<28} {deployed.address}  block {deployed.block}")
