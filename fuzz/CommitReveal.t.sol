// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Test} from "forge-std/Test.sol";
import {Vm} from "forge-std/Vm.sol";

import {CommitRevealWorkflow} from "../contracts/examples/CommitRevealWorkflow.sol";
import {AgentReply, AgentTask, IAgentWorkflow, RunStatus} from "../contracts/interfaces/IAgentWorkflow.sol";
import {MockAgentVerifier} from "../contracts/mocks/MockAgentVerifier.sol";

/// @notice Which commits and reveals count: ERC-8301 Scenario 4, with `nonce = 32 secret bytes ‖ 20 replier bytes`. With a
///         quorum of one, a reply counts exactly when it moves the run.
contract CommitRevealFuzz is Test {
    uint8 private constant _COMMIT = 0;
    uint8 private constant _REVEAL = 1;
    uint8 private constant _FINALIZE = 2;
    address private constant _AGENT = address(0xa9e47);
    address private constant _OTHER = address(0x07e4);

    CommitRevealWorkflow private _alone; // quorum 1
    CommitRevealWorkflow private _pair; // quorum 2
    uint256 private _operations;

    function setUp() public {
        address verifier = address(new MockAgentVerifier());
        _alone = new CommitRevealWorkflow(verifier, 1);
        _pair = new CommitRevealWorkflow(verifier, 2);
        vm.warp(1_800_000_000);
    }

    function testFuzz_commit__hash_without_plaintext__counts(bytes32 commitment) public {
        vm.assume(commitment != 0);
        (bytes32 runId, bytes32 taskHash) = _start(_alone);
        _reply(_alone, runId, taskHash, _AGENT, commitment, "");
        assertEq(_stageOf(_alone, runId), _REVEAL);
    }

    function testFuzz_commit__with_plaintext_or_zero__silent(bytes memory plaintext) public {
        (bytes32 runId, bytes32 taskHash) = _start(_alone);
        bytes32 commitment = plaintext.length == 0 ? bytes32(0) : keccak256(plaintext);
        _reply(_alone, runId, taskHash, _AGENT, commitment, plaintext);
        assertEq(_stageOf(_alone, runId), _COMMIT);
    }

    function testFuzz_reveal__what_was_committed__counts_exactly_if_it_ends_with_the_replier(
        bytes memory plaintext,
        bool rightSuffix,
        bool longEnough
    ) public {
        if (longEnough) plaintext = bytes.concat(plaintext, new bytes(32));
        if (rightSuffix) plaintext = bytes.concat(plaintext, bytes20(_AGENT));
        vm.assume(plaintext.length != 0);
        (bytes32 runId, bytes32 taskHash) = _start(_alone);
        bytes32 revealTask = _reply(_alone, runId, taskHash, _AGENT, keccak256(plaintext), "");
        bytes32 finalizeTask = _reply(_alone, runId, revealTask, _AGENT, keccak256(plaintext), plaintext);

        bool counts = plaintext.length >= 52 && _endsWith(plaintext, _AGENT);
        assertEq(_stageOf(_alone, runId), counts ? _FINALIZE : _REVEAL);
        if (counts) assertEq(_inputHash(_alone, finalizeTask), _hashOfResult(plaintext));
    }

    function testFuzz_reveal__anything_else_than_committed__silent(
        bytes memory result,
        bytes32 secret,
        bytes memory other
    ) public {
        bytes memory plaintext = bytes.concat(result, secret, bytes20(_AGENT));
        bytes memory lie = bytes.concat(other, secret, bytes20(_AGENT));
        vm.assume(keccak256(lie) != keccak256(plaintext));
        (bytes32 runId, bytes32 taskHash) = _start(_alone);
        bytes32 revealTask = _reply(_alone, runId, taskHash, _AGENT, keccak256(plaintext), "");
        _reply(_alone, runId, revealTask, _AGENT, keccak256(lie), lie);
        assertEq(_stageOf(_alone, runId), _REVEAL);
        // The right plaintext withheld reveals nothing.
        _reply(_alone, runId, revealTask, _AGENT, keccak256(plaintext), "");
        assertEq(_stageOf(_alone, runId), _REVEAL);
        _reply(_alone, runId, revealTask, _AGENT, keccak256(plaintext), plaintext);
        assertEq(_stageOf(_alone, runId), _FINALIZE);
    }

    function testFuzz_reveal__commitment_copied_from_another__silent(bytes memory result, bytes32 secret) public {
        bytes memory plaintext = bytes.concat(result, secret, bytes20(_AGENT));
        bytes32 commitment = keccak256(plaintext);
        (bytes32 runId, bytes32 taskHash) = _start(_pair);
        _reply(_pair, runId, taskHash, _AGENT, commitment, "");
        bytes32 revealTask = _reply(_pair, runId, taskHash, _OTHER, commitment, "");
        _reply(_pair, runId, revealTask, _AGENT, commitment, plaintext);
        _reply(_pair, runId, revealTask, _OTHER, commitment, plaintext); // the copy; with it there would be a quorum
        assertEq(_stageOf(_pair, runId), _REVEAL);
    }

    function testFuzz_reveal__two_agents__pass_exactly_if_they_agree(
        bytes memory one,
        bytes memory two,
        bytes32[2] memory secrets,
        bool agree
    ) public {
        if (agree) two = one;
        bytes memory first = bytes.concat(one, secrets[0], bytes20(_AGENT));
        bytes memory second = bytes.concat(two, secrets[1], bytes20(_OTHER));
        (bytes32 runId, bytes32 taskHash) = _start(_pair);
        _reply(_pair, runId, taskHash, _AGENT, keccak256(first), "");
        bytes32 revealTask = _reply(_pair, runId, taskHash, _OTHER, keccak256(second), "");
        _reply(_pair, runId, revealTask, _AGENT, keccak256(first), first);
        // A second reveal of the same agent is none.
        _reply(_pair, runId, revealTask, _AGENT, keccak256(first), first);
        assertEq(_stageOf(_pair, runId), _REVEAL);
        bytes32 finalizeTask = _reply(_pair, runId, revealTask, _OTHER, keccak256(second), second);
        bool pass = keccak256(one) == keccak256(two);
        assertEq(_stageOf(_pair, runId), pass ? _FINALIZE : _REVEAL);
        if (pass) assertEq(_inputHash(_pair, finalizeTask), keccak256(one));
    }

    function testFuzz_finalize__any_hash__completes_exactly_with_the_majority(bytes memory result, bytes32 answer)
        public
    {
        bytes memory plaintext = bytes.concat(result, keccak256("secret"), bytes20(_AGENT));
        if (uint256(answer) % 2 == 0) answer = keccak256(result);
        (bytes32 runId, bytes32 taskHash) = _start(_alone);
        bytes32 revealTask = _reply(_alone, runId, taskHash, _AGENT, keccak256(plaintext), "");
        bytes32 finalizeTask = _reply(_alone, runId, revealTask, _AGENT, keccak256(plaintext), plaintext);
        vm.recordLogs();
        _reply(_alone, runId, finalizeTask, _OTHER, answer, "");
        bytes32[] memory replies = new bytes32[](1);
        replies[0] = _alone.getReplyHashByOperation(runId, _OTHER, bytes32(_operations));
        _alone.onAgentProve(replies, abi.encode(keccak256(abi.encodePacked(keccak256(result), answer))));
        (RunStatus status,,) = _alone.result(runId);
        assertEq(status == RunStatus.Success, answer == keccak256(result));
    }

    // ── Helpers ──────────────────────────────────────────────────────────────

    function _start(CommitRevealWorkflow workflow) private returns (bytes32 runId, bytes32 taskHash) {
        vm.recordLogs();
        runId = workflow.run(keccak256("input"), "", block.timestamp + 1 days);
        taskHash = _dispatched();
    }

    /// @return taskHash The task that the reply led to; zero if none
    function _reply(
        CommitRevealWorkflow workflow,
        bytes32 runId,
        bytes32 prevTask,
        address agent,
        bytes32 outputHash,
        bytes memory output
    ) private returns (bytes32 taskHash) {
        vm.warp(block.timestamp + 1);
        AgentReply memory reply;
        reply.operationId = bytes32(++_operations);
        reply.outputHash = outputHash;
        reply.output = output;
        reply.timestamp = block.timestamp;
        reply.replier = agent;
        reply.prevTaskHashes = new bytes32[](1);
        reply.prevTaskHashes[0] = prevTask;
        reply.workflowRunId = runId;
        vm.recordLogs();
        vm.prank(agent);
        workflow.onAgentReply(reply);
        taskHash = _dispatched();
    }

    function _dispatched() private returns (bytes32 taskHash) {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].topics[0] == IAgentWorkflow.NewAgentTask.selector) taskHash = logs[i].topics[3];
        }
    }

    function _stageOf(CommitRevealWorkflow workflow, bytes32 runId) private view returns (uint8 stage) {
        (, stage,) = workflow.runState(runId);
    }

    function _inputHash(CommitRevealWorkflow workflow, bytes32 taskHash) private view returns (bytes32) {
        (AgentTask memory task,) = workflow.getAgentTask(taskHash);
        return task.inputHash;
    }

    function _endsWith(bytes memory data, address account) private pure returns (bool) {
        bytes20 suffix = bytes20(account);
        for (uint256 i = 0; i < 20; ++i) {
            if (data[data.length - 20 + i] != suffix[i]) return false;
        }
        return true;
    }

    /// @dev Of everything but the last 52 bytes.
    function _hashOfResult(bytes memory data) private pure returns (bytes32) {
        bytes memory result = new bytes(data.length - 52);
        for (uint256 i = 0; i < result.length; ++i) {
            result[i] = data[i];
        }
        return keccak256(result);
    }
}
