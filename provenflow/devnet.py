"""A local chain with the whole suite deployed: anvil on loopback, from start to a clean end.

Time: anvil mines a block for each transaction, and blocks of one second share a timestamp. ERC-8301 wants a reply's
timestamp strictly after its task's, so a reply in the same second is refused. An agent waits for the next second; what
owns the chain, a test or a demo, calls :meth:`Devnet.next_second` instead.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from eth_utils.address import to_checksum_address

from provenflow import artifacts, deployment
from provenflow.deployers import RpcDeployer
from provenflow.errors import Unreachable, WrongUse
from provenflow.rpc import Rpc, quantity
from provenflow.toolchain import find_anvil

CHAIN_ID: Final = 31337
HOST: Final = "127.0.0.1"
HARDFORK: Final = "prague"
ACCOUNTS: Final = 10
# Known to everyone: its accounts are for play money only.
MNEMONIC: Final = "test test test test test test test test test test test junk"
MAX_BLOCK_TIME: Final = 3600

_TESTED_VERSION: Final = "1.7.1"
_FIRST_WITH_HARDFORK: Final = (1, 0, 0)
_START_TIMEOUT: Final = 30.0  # seconds until anvil listens; it takes a tenth of one
_STOP_TIMEOUT: Final = 5.0  # seconds until a polite request becomes SIGKILL
_SEED_HEAD_START: Final = 600  # seconds; more than the seeding moves the clock
_LEASH: Final = Path(__file__).with_name("leash.py")
_LISTENING: Final = re.compile(rf"Listening on {re.escape(HOST)}:(\d+)")


@dataclass(frozen=True)
class Contract:
    """A deployed contract: its address, with checksum, and its ABI."""

    address: str
    abi: tuple[Mapping[str, Any], ...]


class Devnet:
    """A development chain that lives as long as its ``with`` block, and no longer than this process.

    Enter it in a thread that lives as long as the chain is needed: Linux ends anvil with the thread that started it.

    Parameters
    ----------
    port:
        TCP port on 127.0.0.1; 0 for any free one.
    block_time:
        Seconds between blocks; None mines a block for each transaction. Deploying and seeding never wait for blocks.
    seed_data:
        Add a few finished and pending runs; see :mod:`provenflow.devnet_seed`.

    Raises
    ------
    WrongUse
        anvil is missing or too old, the port is taken or not allowed, or the compiled contracts are missing or stale.
    Unreachable
        anvil ended, or did not answer in time.
    """

    def __init__(self, *, port: int = 0, block_time: int | None = None, seed_data: bool = False) -> None:
        if not 0 <= port <= 65535:
            raise WrongUse(f"Port {port} is not between 0 and 65535.")
        if block_time is not None and not 1 <= block_time <= MAX_BLOCK_TIME:
            raise WrongUse(f"The block time must be 1 to {MAX_BLOCK_TIME} seconds, not {block_time}.")
        self._wanted_port = port
        self._block_time = block_time
        self._seed_data = seed_data
        self._process: subprocess.Popen[str] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._last_words: deque[str] = deque(maxlen=20)
        self.warnings: list[str] = []
        self.accounts: list[str] = []
        self.contracts: dict[str, Contract] = {}
        self.seeded: list[str] = []
        self.port = port

    def __enter__(self) -> Self:
        try:
            self._start()
            self._deploy()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The chain's JSON-RPC URL."""
        return f"http://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of anvil."""
        return self._running().pid

    def document(self) -> dict[str, object]:
        """What ``provenflow devnet --json FILE`` writes: chain id, URL, unlocked accounts, contracts with ABIs."""
        return {
            "chainId": CHAIN_ID,
            "rpc": self.url,
            "accounts": self.accounts,
            "contracts": {
                name: {"address": contract.address, "abi": list(contract.abi)}
                for name, contract in self.contracts.items()
            },
        }

    def clock(self) -> int:
        """Timestamp that a block mined now would have, Unix seconds."""
        block = self.rpc.call("eth_getBlockByNumber", "pending", False)
        return quantity(
            block.get("timestamp") if isinstance(block, dict) else None, "the timestamp of the next block"
        )

    def next_second(self) -> int:
        """Make the next block later than the last; the timestamp that it will have, Unix seconds.

        The timestamp is fixed, not only the clock moved on: so it is known before the block is there.
        """
        block = self.rpc.call("eth_getBlockByNumber", "latest", False)
        last = quantity(
            block.get("timestamp") if isinstance(block, dict) else None, "the last block's timestamp"
        )
        when = max(last + 1, self.clock())
        self.rpc.call("evm_setNextBlockTimestamp", when)
        return when

    def wait(self) -> None:
        """Block until anvil ends by itself.

        Raises
        ------
        Unreachable
            It did; that is never as it should be.
        """
        code = self._running().wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        raise Unreachable(f"anvil ended by itself ({how}{self._said()}).", fix="Start the devnet again.")

    def stop(self) -> None:
        """End anvil and wait until it is gone. Does nothing when it is not running."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            # The whole group: where the leash stays in between, anvil is its child. The group is signalled only while
            # its first process is not yet waited for, so its number cannot be another's.
            try:
                os.killpg(process.pid, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_STOP_TIMEOUT)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise WrongUse("The devnet is not running.", fix="Use it inside its with block.")
        return self._process

    def _start(self) -> None:
        artifacts.load_all()  # refuses what cannot be deployed before anything runs
        anvil = find_anvil()
        self._check_version(anvil)
        _check_port(self._wanted_port)
        self._scratch = tempfile.TemporaryDirectory(prefix="provenflow-devnet-")
        command = [
            sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), str(anvil),
            "--host", HOST,
            "--port", str(self._wanted_port),
            "--hardfork", HARDFORK,
            "--chain-id", str(CHAIN_ID),
            "--accounts", str(ACCOUNTS),
            "--mnemonic", MNEMONIC,
            "--cache-path", self._scratch.name,
        ]  # fmt: skip
        if self._seed_data:
            # Seeding moves the clock; starting early lets it end at the real time, not ahead of it.
            command += ["--timestamp", str(int(time.time()) - _SEED_HEAD_START)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C in the terminal is ours to handle, not anvil's
        )
        self.port = 0  # until anvil says which
        listening = threading.Event()
        threading.Thread(target=self._listen, args=(self._process, listening), daemon=True).start()
        if not listening.wait(_START_TIMEOUT):
            raise Unreachable(f"anvil did not start within {_START_TIMEOUT:g} s{self._said()}.")
        if self.port == 0:
            raise self._ended_early(self._process)
        self.rpc = Rpc(self.url)

    def _listen(self, process: subprocess.Popen[str], listening: threading.Event) -> None:
        """Read all that anvil prints, so that it never blocks; learn the port from the line that names it."""
        if process.stdout is None:  # for the type checker: it is a pipe
            return
        with process.stdout:
            for line in process.stdout:
                if found := _LISTENING.search(line):
                    self.port = int(found[1])
                    listening.set()
                elif line.strip():
                    self._last_words.append(line.strip())
        listening.set()  # it ended

    def _deploy(self) -> None:
        self.accounts = [to_checksum_address(account) for account in self.rpc.call("eth_accounts")]
        deployer = RpcDeployer(self.rpc, self.accounts[0], local=True)
        done = deployment.deploy(deployer, deployment.plan(local=True))
        for name, deployed in done.items():
            self.contracts[name] = Contract(deployed.address, artifacts.load(name).abi)
        if self._seed_data:
            from provenflow.devnet_seed import seed

            self.seeded = seed(self)
            self.rpc.call("evm_setTime", max(int(time.time()), self.clock() + 1))
            self.rpc.call("evm_mine")
        if self._block_time is not None:
            self.rpc.call("evm_setIntervalMining", self._block_time)

    def _check_version(self, anvil: Path) -> None:
        try:
            answer = subprocess.run(
                [anvil, "--version"], capture_output=True, text=True, timeout=_START_TIMEOUT, check=True
            ).stdout
        except (OSError, subprocess.SubprocessError) as trouble:
            raise WrongUse(
                f"{anvil} cannot be run ({trouble}).", fix="Install Foundry's anvil again."
            ) from None
        found = re.search(r"[Vv]ersion:? v?(\d+)\.(\d+)\.(\d+)", answer) or re.search(
            r"anvil v?(\d+)\.(\d+)\.(\d+)", answer
        )
        if found is None:
            raise WrongUse(f"{anvil} does not say that it is anvil.", fix="Install Foundry's anvil.")
        version = ".".join(found.groups())
        if tuple(map(int, found.groups())) < _FIRST_WITH_HARDFORK:
            raise WrongUse(
                f"{anvil} is version {version}, which does not know the {HARDFORK} hard fork.",
                fix=f"Install anvil {_TESTED_VERSION}.",
            )
        if version != _TESTED_VERSION:
            self.warnings.append(f"anvil is version {version}; provenflow is tested with {_TESTED_VERSION}.")

    def _ended_early(self, process: subprocess.Popen[str]) -> Exception:
        process.wait(_STOP_TIMEOUT)
        if any("Address already in use" in line for line in self._last_words):
            return _port_taken(self._wanted_port)
        return Unreachable(f"anvil ended before it was ready{self._said()}.", fix="Does it run on its own?")

    def _said(self) -> str:
        return f"; it said: {self._last_words[-1]}" if self._last_words else ""


def _check_port(port: int) -> None:
    """Refuse a port that cannot be had before anvil is started, with a sentence that says why."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError:
            raise WrongUse(
                f"Port {port} needs special rights.", fix="Use one from 1024 on: --port 8545."
            ) from None
        except OSError:
            raise _port_taken(port) from None


def _port_taken(port: int) -> WrongUse:
    return WrongUse(
        f"Port {port} is taken.", fix="Choose another with --port, or any free one with --port 0."
    )
