"""Hypothesis strategies for the values that ERC-8301 hashes, edges of the types included."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.reference_hashing import Reply, Task

uint8 = st.integers(0, 2**8 - 1)
uint256 = st.one_of(st.integers(0, 2**256 - 1), st.integers(0, 2**40), st.sampled_from([0, 2**256 - 1]))
bytes32 = st.one_of(st.binary(min_size=32, max_size=32), st.sampled_from([bytes(32), b"\xff" * 32]))
address = st.binary(min_size=20, max_size=20)
bytes32_list = st.lists(bytes32, max_size=8)

tasks = st.builds(
    Task,
    stage=uint8,
    task_seq=uint256,
    input_hash=bytes32,
    timestamp=uint256,
    expires_at=uint256,
    prev_reply_hashes=bytes32_list,
    workflow_run_id=bytes32,
)
replies = st.builds(
    Reply,
    operation_id=bytes32,
    output_hash=bytes32,
    timestamp=uint256,
    replier=address,
    prev_task_hashes=bytes32_list,
    workflow_run_id=bytes32,
)
