// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Test} from "forge-std/Test.sol";

import {AgentReply, AgentTask} from "../contracts/interfaces/IAgentWorkflow.sol";
import {MAX_PREV_TASKS} from "../contracts/workflow/WorkflowTypes.sol";
import {ReplyHead, TaskHead} from "../contracts/workflow/WorkflowStorage.sol";
import {PlainHashing} from "./support/PlainHashing.sol";
import {StorageHarness} from "./support/StorageHarness.sol";

/// @notice What is packed is read back exactly: every field of every task and reply, and so every hash.
contract WorkflowStorageFuzz is Test {
    address private constant _AGENT = address(0xa9e47);

    StorageHarness private _storage;
    bytes32 private _runId;

    function setUp() public {
        _storage = new StorageHarness();
        _storage.openRun(address(1)); // the run under test is not the first
        _runId = _storage.openRun(address(this));
        vm.warp(1_800_000_000);
    }

    // ── Tasks ────────────────────────────────────────────────────────────────

    function testFuzz_task__any_fields__read_back(
        uint8 stage,
        bytes32 inputHash,
        bytes memory input,
        uint40 timestamp,
        uint256 expiresAt,
        uint8 prevCount
    ) public {
        AgentTask memory task;
        task.stage = stage;
        task.inputHash = inputHash;
        task.input = input;
        task.timestamp = bound(timestamp, 1, type(uint40).max);
        task.expiresAt = expiresAt;
        task.workflowRunId = _runId;
        task.prevReplyHashes = _someReplies(prevCount % 9);
        _roundTrip(task, false, stage ^ 0x55, prevCount);
    }

    function testFuzz_task__expiry_around_the_packed_limit__read_back(uint256 expiresAt, uint8 shift) public {
        AgentTask memory task = _plainTask();
        task.expiresAt = expiresAt >> shift;
        _roundTrip(task, false, 0, 0);
        task.expiresAt = bound(expiresAt, type(uint40).max - 2, uint256(type(uint40).max) + 2);
        _roundTrip(task, false, 0, 0);
    }

    function testFuzz_task__input_derived_from_its_single_reply__read_back(bytes32 outputHash, uint256 expiresAt)
        public
    {
        AgentReply memory reply = _plainReply(_aTask(), outputHash);
        AgentTask memory task = _plainTask();
        task.prevReplyHashes = new bytes32[](1);
        task.prevReplyHashes[0] = _storage.storeReply(reply);
        task.inputHash = outputHash;
        task.expiresAt = expiresAt;
        _roundTrip(task, true, 3, 1);
    }

    function testFuzz_flagTask__any_flags__nothing_else_changes(bool closed, bool answered, uint256 expiresAt) public {
        AgentTask memory task = _plainTask();
        task.expiresAt = expiresAt;
        task.input = "plain";
        bytes32 taskHash = _storage.createTask(task, false, 7, 2);
        (AgentTask memory before, TaskHead memory headBefore) = _storage.taskOf(taskHash);
        _storage.flagTask(taskHash, closed, answered);
        (AgentTask memory stored, TaskHead memory head) = _storage.taskOf(taskHash);
        assertEq(abi.encode(stored), abi.encode(before));
        assertEq(head.flags & _storage.closedFlag() != 0, closed);
        assertEq(head.flags & _storage.answeredFlag() != 0, answered);
        head.flags = headBefore.flags;
        assertEq(abi.encode(head), abi.encode(headBefore));
    }

    // ── Replies ──────────────────────────────────────────────────────────────

    function testFuzz_reply__any_fields__read_back(
        bytes32 operationId,
        bytes32 outputHash,
        bytes memory output,
        uint40 timestamp,
        address replier,
        uint40 anchoredAt
    ) public {
        vm.assume(replier != address(0)); // the zero address sends no transaction
        AgentReply memory reply = _plainReply(_aTask(), outputHash);
        reply.operationId = operationId;
        reply.output = output;
        reply.timestamp = timestamp;
        reply.replier = replier;
        vm.warp(bound(anchoredAt, 1, type(uint40).max));
        _roundTrip(reply);
    }

    function testFuzz_reply__any_previous_tasks_in_any_order__read_back(uint256 order, uint8 count) public {
        uint256 tasks = bound(count, 1, MAX_PREV_TASKS);
        bytes32[] memory pool = new bytes32[](MAX_PREV_TASKS + 2);
        for (uint256 i = 0; i < pool.length; ++i) {
            pool[i] = _aTask();
        }
        AgentReply memory reply = _plainReply(pool[0], keccak256("output"));
        reply.prevTaskHashes = new bytes32[](tasks);
        for (uint256 i = 0; i < tasks; ++i) {
            // Drawing without putting back; task 0 of the run may come at any place.
            uint256 drawn = i + uint256(keccak256(abi.encode(order, i))) % (pool.length - i);
            (pool[i], pool[drawn]) = (pool[drawn], pool[i]);
            reply.prevTaskHashes[i] = pool[i];
        }
        _roundTrip(reply);
    }

    function testFuzz_operation__unbound__stays_unbound(bytes32 operationId, address replier) public {
        AgentReply memory reply = _plainReply(_aTask(), keccak256("output"));
        _storage.storeReply(reply);
        vm.assume(operationId != reply.operationId || replier != reply.replier);
        (bool bound_,) = _storage.operation(_runId, replier, operationId);
        assertFalse(bound_);
    }

    // ── Proofs ───────────────────────────────────────────────────────────────

    function testFuzz_markProven__any_children__each_waits_for_one_less(uint8 childCount, bytes32 digest) public {
        bytes32 proven = _storage.storeReply(_plainReply(_aTask(), keccak256("proven")));
        AgentReply memory other = _plainReply(_aTask(), keccak256("other"));
        other.operationId = keccak256("other operation");
        bytes32 unproven = _storage.storeReply(other);
        uint256 count = bound(childCount, 0, 40);
        bytes32[] memory children = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            AgentTask memory task = _plainTask();
            task.prevReplyHashes = new bytes32[](i % 2 == 0 ? 1 : 2);
            task.prevReplyHashes[0] = proven;
            if (i % 2 == 1) task.prevReplyHashes[1] = unproven;
            children[i] = _storage.createTask(task, false, 0, 0);
            (, TaskHead memory before) = _storage.taskOf(children[i]);
            assertEq(before.unprovenCount, task.prevReplyHashes.length);
        }
        _storage.markProven(proven, digest);
        for (uint256 i = 0; i < count; ++i) {
            (, TaskHead memory head) = _storage.taskOf(children[i]);
            assertEq(head.unprovenCount, i % 2);
        }
        (, ReplyHead memory reply) = _storage.replyOf(proven);
        assertTrue(reply.proven);
        assertEq(_storage.digestOf(proven), digest);
        (, reply) = _storage.replyOf(unproven);
        assertFalse(reply.proven);
        assertEq(_storage.digestOf(unproven), 0);
    }

    function testFuzz_createTask__previous_reply_proven_before__does_not_wait(uint8 provenOf, uint8 prevCount) public {
        bytes32[] memory replies = _someReplies(prevCount % 9);
        uint256 waits = replies.length;
        for (uint256 i = 0; i < replies.length; ++i) {
            if ((provenOf >> i) & 1 == 0) continue;
            _storage.markProven(replies[i], 0);
            --waits;
        }
        AgentTask memory task = _plainTask();
        task.prevReplyHashes = replies;
        (, TaskHead memory head) = _storage.taskOf(_storage.createTask(task, false, 0, 0));
        assertEq(head.unprovenCount, waits);
    }

    // ── Helpers ──────────────────────────────────────────────────────────────

    function _roundTrip(AgentTask memory task, bool derivedInput, uint8 lane, uint8 attempt) private {
        bytes32 taskHash = _storage.createTask(task, derivedInput, lane, attempt);
        (AgentTask memory stored, TaskHead memory head) = _storage.taskOf(taskHash);
        task.taskSeq = head.seq; // filled in by the storage
        assertEq(abi.encode(stored), abi.encode(task));
        assertEq(PlainHashing.taskHash(stored), taskHash);
        assertEq(_storage.taskHashAt(_runId, head.seq), taskHash);
        assertEq(head.lane, lane);
        assertEq(head.attempt, attempt);
        assertEq(head.unprovenCount, task.prevReplyHashes.length);
    }

    function _roundTrip(AgentReply memory reply) private {
        bytes32 replyHash = _storage.storeReply(reply);
        (AgentReply memory stored, ReplyHead memory head) = _storage.replyOf(replyHash);
        assertEq(abi.encode(stored), abi.encode(reply));
        assertEq(PlainHashing.replyHash(stored), replyHash);
        assertFalse(head.proven);
        assertEq(_storage.anchorTime(replyHash), block.timestamp);
        assertEq(_storage.digestOf(replyHash), 0);
        (bool bound_, AgentReply memory operation) = _storage.operation(_runId, reply.replier, reply.operationId);
        assertTrue(bound_);
        reply.output = ""; // the binding leaves it out
        assertEq(abi.encode(operation), abi.encode(reply));
    }

    function _plainTask() private view returns (AgentTask memory task) {
        task.inputHash = keccak256("input");
        task.timestamp = block.timestamp;
        task.workflowRunId = _runId;
    }

    function _aTask() private returns (bytes32) {
        return _storage.createTask(_plainTask(), false, 0, 0);
    }

    function _plainReply(bytes32 taskHash, bytes32 outputHash) private view returns (AgentReply memory reply) {
        reply.operationId = keccak256("operation");
        reply.outputHash = outputHash;
        reply.timestamp = block.timestamp;
        reply.replier = _AGENT;
        reply.prevTaskHashes = new bytes32[](1);
        reply.prevTaskHashes[0] = taskHash;
        reply.workflowRunId = _runId;
    }

    function _someReplies(uint256 count) private returns (bytes32[] memory replyHashes) {
        bytes32 taskHash = _aTask();
        replyHashes = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            AgentReply memory reply = _plainReply(taskHash, keccak256("output"));
            reply.operationId = bytes32(i + 1);
            replyHashes[i] = _storage.storeReply(reply);
        }
    }
}
