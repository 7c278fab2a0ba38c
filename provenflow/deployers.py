"""The two ways to send a creation transaction: a node's own accounts over JSON-RPC, and an Ape account.

Importing this module does not import Ape: the Ape deployer works on the objects it is given.
"""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import urlsplit

from eth_utils.address import to_checksum_address

from provenflow.artifacts import Artifact
from provenflow.deployment import Deployed
from provenflow.errors import Invalid, Unreachable, WrongUse
from provenflow.rpc import Rpc, hex_bytes, quantity
from provenflow.transactions import Refused, send


class RpcDeployer:
    """Deploys from an account that the node holds.

    Parameters
    ----------
    rpc:
        The node.
    account:
        Address of an unlocked account.
    local:
        Whether the caller knows that the node is a development node on this machine, because it started it.
    network:
        The network's name, for people.

    Raises
    ------
    Unreachable
        The node did not answer.
    """

    def __init__(self, rpc: Rpc, account: str, *, local: bool, network: str = "local") -> None:
        self._rpc = rpc
        self.account = account
        self.local = local
        self.network = network
        self.chain_id = quantity(rpc.call("eth_chainId"), "the chain id")

    def deploy(self, artifact: Artifact, *arguments: str | int) -> Deployed:
        """Deploy one contract. Raises as :func:`provenflow.transactions.send`."""
        init_code = artifact.init_code(*arguments)
        receipt = send(
            self._rpc,
            self.account,
            what=f"the deployment of {artifact.name}",
            data=init_code,
            errors=artifact.abi,
        )
        address = hex_bytes(receipt.contract, f"the address of {artifact.name}", 20)
        return Deployed(to_checksum_address(address), receipt.transaction, receipt.block, init_code)

    def code(self, address: str) -> bytes:
        """Runtime code at `address`."""
        return hex_bytes(self._rpc.call("eth_getCode", address, "latest"), f"the code at {address}")

    def nonce(self) -> int:
        """Nonce of the account's next transaction."""
        return quantity(self._rpc.call("eth_getTransactionCount", self.account, "pending"), "a nonce")


class ApeDeployer:
    """Deploys from an Ape account to the network that Ape is connected to.

    Parameters
    ----------
    account:
        An Ape account.
    project:
        The Ape project with the compiled contracts.
    provider:
        The connected provider.
    """

    def __init__(self, account: Any, project: Any, provider: Any) -> None:
        self._account = account
        self._project = project
        self._provider = provider
        self.account = str(account.address)
        self.chain_id = int(provider.chain_id)
        self.network = f"{provider.network.ecosystem.name}:{provider.network.name}"
        self.local = bool(provider.network.is_local) or _is_loopback(getattr(provider, "http_uri", None))

    def deploy(self, artifact: Artifact, *arguments: str | int) -> Deployed:
        """Deploy one contract and remember it in Ape, so that ``project.NAME.at(address)`` knows its ABI.

        Raises
        ------
        Refused
            The constructor refused.
        WrongUse
            The account did not sign.
        Unreachable
            Ape could not send the transaction or find its receipt.
        """
        from ape.exceptions import ApeException, ContractLogicError, SignatureError

        container = getattr(self._project, artifact.name)
        transaction = container(*arguments)
        transaction.sender = self.account
        try:
            receipt = self._account.call(transaction)
        except ContractLogicError as trouble:
            raise Refused(f"the deployment of {artifact.name}", str(trouble)) from trouble
        except SignatureError as trouble:
            raise WrongUse(f"The deployment of {artifact.name} was not signed ({trouble}).") from trouble
        except (ApeException, OSError) as trouble:
            raise Unreachable(f"{artifact.name} could not be deployed ({trouble}).") from trouble
        if not receipt.contract_address:
            raise Invalid(f"Transaction {receipt.txn_hash} created no contract.")
        contracts = self._account.chain_manager.contracts
        contracts.cache_deployment(contracts.instance_from_receipt(receipt, container.contract_type))
        return Deployed(
            address=to_checksum_address(receipt.contract_address),
            transaction=str(receipt.txn_hash),
            block=int(receipt.block_number),
            init_code=bytes(transaction.data),
        )

    def code(self, address: str) -> bytes:
        """Runtime code at `address`."""
        return bytes(self._provider.get_code(address))

    def nonce(self) -> int:
        """Nonce of the account's next transaction."""
        return int(self._account.nonce)


def _is_loopback(uri: str | None) -> bool:
    host = urlsplit(uri).hostname if uri else None
    if host is None:
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
