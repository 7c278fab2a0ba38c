// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentReply, AgentTask, RunStatus} from "../../interfaces/IAgentWorkflow.sol";
import {IAgentWorkflowErrors} from "../../interfaces/IAgentWorkflowErrors.sol";
import {WorkflowHashing} from "../../workflow/WorkflowHashing.sol";
import {FINAL_STAGE} from "../../workflow/WorkflowTypes.sol";

/// @title  PlainWorkflowStorage
/// @notice Plays a `WorkflowStorage` without any packing, as a yardstick for gas: the ERC's structs are stored as they are,
///         every field in a slot of its own, every list as an array, and whatever the ERC tells a contract to persist is
///         persisted, recomputable or not. The benchmark compiles the unchanged workflow over it; nothing else uses it.
/// @dev    Same internal functions and same memory structs as `WorkflowStorage`, which documents them. What `AgentWorkflow`
///         never reads back is not read here either, so that the twin pays for its layout and not for its style.
abstract contract PlainWorkflowStorage is IAgentWorkflowErrors {
    using WorkflowHashing for AgentReply;
    using WorkflowHashing for AgentTask;

    struct Run {
        uint40 index;
        uint32 taskCount;
        uint32 firstOpenSeq;
        uint8 stage;
        RunStatus status;
        uint32 tally;
    }

    struct TaskHead {
        uint40 runIndex;
        uint32 seq;
        uint8 stage;
        uint40 timestamp;
        uint40 expiresAt; // left 0: read by `_expiryOf`
        uint16 prevCount; // left 0: the array knows its length
        uint16 unprovenCount;
        uint8 lane;
        uint8 attempt;
        uint8 flags;
    }

    struct ReplyHead {
        address replier;
        uint40 runIndex;
        bool proven;
    }

    uint8 internal constant CLOSED = 1;
    uint8 internal constant ANSWERED = 2;

    struct RunRow {
        uint256 index;
        uint256 taskCount;
        uint256 firstOpenSeq;
        uint256 stage;
        uint256 status;
        uint256 tally;
        bytes32 finalTaskHash;
        uint256 completedAt;
        bytes32[] taskHashes; // of dispatched tasks
    }

    struct TaskRow {
        AgentTask task;
        uint256 unprovenCount;
        uint256 lane;
        uint256 attempt;
        uint256 closed;
        uint256 answered;
    }

    struct ReplyRow {
        AgentReply reply;
        uint256 anchoredAt;
        uint256 proven;
        bytes32 verificationDigest;
        bytes32[] children; // tasks that wait for the proof
    }

    struct OperationRow {
        bytes32 replyDigest;
        bytes32 replyHash;
    }

    uint256 private _nextRunIndex = 1;
    mapping(bytes32 workflowRunId => RunRow) private _runs;
    mapping(uint256 runIndex => bytes32 workflowRunId) private _runIds;
    mapping(bytes32 taskHash => TaskRow) private _tasks;
    mapping(bytes32 replyHash => ReplyRow) private _replies;
    mapping(bytes32 operationKey => OperationRow) private _operations;

    // ── Runs ─────────────────────────────────────────────────────────────────

    function _openRun(address sender) internal returns (bytes32 workflowRunId, Run memory run_) {
        uint256 index = _nextRunIndex;
        _nextRunIndex = index + 1;
        workflowRunId = WorkflowHashing.runId(sender, block.number, index - 1);
        _runIds[index] = workflowRunId;
        run_.index = uint40(index);
    }

    function _saveRun(bytes32 workflowRunId, Run memory run_) internal {
        RunRow storage row = _runs[workflowRunId];
        row.index = run_.index;
        row.taskCount = run_.taskCount;
        row.firstOpenSeq = run_.firstOpenSeq;
        row.stage = run_.stage;
        row.status = uint256(run_.status);
        row.tally = run_.tally;
    }

    function _loadRun(bytes32 workflowRunId) internal view returns (Run memory run_) {
        RunRow storage row = _runs[workflowRunId];
        run_.index = uint40(row.index);
        run_.taskCount = uint32(row.taskCount);
        run_.firstOpenSeq = uint32(row.firstOpenSeq);
        run_.stage = uint8(row.stage);
        run_.status = RunStatus(row.status);
        run_.tally = uint32(row.tally);
    }

    function _runIdAt(uint256 runIndex) internal view returns (bytes32 workflowRunId) {
        return _runIds[runIndex];
    }

    function _taskHashAt(Run memory run_, uint32 seq) internal view returns (bytes32 taskHash) {
        RunRow storage row = _runs[_runIds[run_.index]];
        return seq < row.taskHashes.length ? row.taskHashes[seq] : row.finalTaskHash;
    }

    // ── Tasks ────────────────────────────────────────────────────────────────

    function _createTask(
        Run memory run_,
        AgentTask memory task,
        bool, /* derivedInput */
        uint8 lane,
        uint8 attempt
    )
        internal
        returns (bytes32 taskHash)
    {
        task.taskSeq = run_.taskCount;
        ++run_.taskCount;
        taskHash = task.taskHash();
        RunRow storage run = _runs[task.workflowRunId];
        if (task.stage == FINAL_STAGE) {
            run.finalTaskHash = taskHash;
            run.completedAt = task.timestamp;
        } else {
            run.taskHashes.push(taskHash);
        }
        TaskRow storage row = _tasks[taskHash];
        row.task = task;
        uint256 unprovenCount;
        for (uint256 i = 0; i < task.prevReplyHashes.length; ++i) {
            ReplyRow storage prev = _replies[task.prevReplyHashes[i]];
            if (prev.proven != 0) continue;
            prev.children.push(taskHash);
            ++unprovenCount;
        }
        if (unprovenCount != 0) row.unprovenCount = unprovenCount;
        if (lane != 0) row.lane = lane;
        if (attempt != 0) row.attempt = attempt;
    }

    function _flagTask(bytes32 taskHash, uint8 flag) internal {
        if (flag & CLOSED != 0) _tasks[taskHash].closed = 1;
        if (flag & ANSWERED != 0) _tasks[taskHash].answered = 1;
    }

    function _loadTaskHead(bytes32 taskHash) internal view returns (TaskHead memory head) {
        TaskRow storage row = _tasks[taskHash];
        head.timestamp = uint40(row.task.timestamp);
        if (head.timestamp == 0) return head; // unknown
        head.runIndex = uint40(_runs[row.task.workflowRunId].index);
        head.seq = uint32(row.task.taskSeq);
        head.stage = row.task.stage;
        head.unprovenCount = uint16(row.unprovenCount);
        head.lane = uint8(row.lane);
        head.attempt = uint8(row.attempt);
        if (row.closed != 0) head.flags |= CLOSED;
        if (row.answered != 0) head.flags |= ANSWERED;
    }

    function _expiryOf(bytes32 taskHash, TaskHead memory) internal view returns (uint256) {
        return _tasks[taskHash].task.expiresAt;
    }

    function _inputHashOf(bytes32 taskHash, TaskHead memory) internal view returns (bytes32) {
        return _tasks[taskHash].task.inputHash;
    }

    function _loadTask(bytes32 taskHash, TaskHead memory) internal view returns (AgentTask memory task) {
        return _tasks[taskHash].task;
    }

    // ── Replies ──────────────────────────────────────────────────────────────

    function _storeReply(bytes32 operationKey, bytes32 replyHash, AgentReply memory reply, TaskHead[] memory) internal {
        OperationRow storage operation = _operations[operationKey];
        operation.replyDigest = reply.replyDigest();
        operation.replyHash = replyHash;
        ReplyRow storage row = _replies[replyHash];
        row.reply = reply;
        row.anchoredAt = block.timestamp;
    }

    function _isBound(bytes32 operationKey) internal view returns (bool) {
        return _operations[operationKey].replyHash != 0;
    }

    function _loadOperation(uint256, bytes32 workflowRunId, address replier, bytes32 operationId)
        internal
        view
        returns (AgentReply memory reply)
    {
        bytes32 operationKey = WorkflowHashing.operationKey(workflowRunId, replier, operationId);
        return _replies[_operations[operationKey].replyHash].reply;
    }

    function _loadReplyHead(bytes32 replyHash) internal view returns (ReplyHead memory head) {
        ReplyRow storage row = _replies[replyHash];
        head.replier = row.reply.replier;
        if (head.replier == address(0)) return head; // unknown
        head.runIndex = uint40(_runs[row.reply.workflowRunId].index);
        head.proven = row.proven != 0;
    }

    function _loadReply(bytes32 replyHash, ReplyHead memory) internal view returns (AgentReply memory reply) {
        return _replies[replyHash].reply;
    }

    function _outputHashOf(bytes32 replyHash) internal view returns (bytes32) {
        return _replies[replyHash].reply.outputHash;
    }

    function _anchorTimeOf(bytes32 replyHash) internal view returns (uint256) {
        return _replies[replyHash].anchoredAt;
    }

    function _verificationDigestOf(bytes32 replyHash) internal view returns (bytes32) {
        return _replies[replyHash].verificationDigest;
    }

    function _markProven(bytes32 replyHash, bytes32 verificationDigest) internal {
        ReplyRow storage row = _replies[replyHash];
        row.proven = 1;
        row.verificationDigest = verificationDigest;
        for (uint256 i = 0; i < row.children.length; ++i) {
            --_tasks[row.children[i]].unprovenCount;
        }
    }
}
