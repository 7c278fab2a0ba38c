// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentReply, AgentTask, RunStatus} from "../../interfaces/IAgentWorkflow.sol";
import {WorkflowHashing} from "../../workflow/WorkflowHashing.sol";
import {FINAL_STAGE} from "../../workflow/WorkflowTypes.sol";

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

uint8 constant CLOSED = 1;
uint8 constant ANSWERED = 2;

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

/// @title  PlainWorkflowStorage
/// @notice Plays a `WorkflowStorage` without any packing, as a yardstick for gas: the ERC's structs are stored as they are,
///         every field in a slot of its own, every list as an array, and whatever the ERC tells a contract to persist is
///         persisted, recomputable or not. The benchmark compiles the unchanged workflow over it; nothing else uses it.
/// @dev    Same internal functions and same memory structs as `WorkflowStorage`, which documents them. What `AgentWorkflow`
///         never reads back is not read here either, so that the twin pays for its layout and not for its style.
library PlainWorkflowStorage {
    using WorkflowHashing for AgentReply;
    using WorkflowHashing for AgentTask;

    struct State {
        uint256 nextRunIndex;
        mapping(bytes32 workflowRunId => RunRow) runs;
        mapping(uint256 runIndex => bytes32 workflowRunId) runIds;
        mapping(bytes32 taskHash => TaskRow) tasks;
        mapping(bytes32 replyHash => ReplyRow) replies;
        mapping(bytes32 operationKey => OperationRow) operations;
    }

    function open(State storage self) internal {
        self.nextRunIndex = 1;
    }

    // ── Runs ─────────────────────────────────────────────────────────────────

    function openRun(State storage self, address sender) internal returns (bytes32 workflowRunId, Run memory run_) {
        uint256 index = self.nextRunIndex;
        self.nextRunIndex = index + 1;
        workflowRunId = WorkflowHashing.runId(sender, block.number, index - 1);
        self.runIds[index] = workflowRunId;
        run_.index = uint40(index);
    }

    function saveRun(State storage self, bytes32 workflowRunId, Run memory run_) internal {
        RunRow storage row = self.runs[workflowRunId];
        row.index = run_.index;
        row.taskCount = run_.taskCount;
        row.firstOpenSeq = run_.firstOpenSeq;
        row.stage = run_.stage;
        row.status = uint256(run_.status);
        row.tally = run_.tally;
    }

    function loadRun(State storage self, bytes32 workflowRunId) internal view returns (Run memory run_) {
        RunRow storage row = self.runs[workflowRunId];
        run_.index = uint40(row.index);
        run_.taskCount = uint32(row.taskCount);
        run_.firstOpenSeq = uint32(row.firstOpenSeq);
        run_.stage = uint8(row.stage);
        run_.status = RunStatus(row.status);
        run_.tally = uint32(row.tally);
    }

    function runIdAt(State storage self, uint256 runIndex) internal view returns (bytes32 workflowRunId) {
        return self.runIds[runIndex];
    }

    function taskHashAt(State storage self, uint256 runIndex, uint256 seq) internal view returns (bytes32 taskHash) {
        RunRow storage row = self.runs[self.runIds[runIndex]];
        return seq < row.taskHashes.length ? row.taskHashes[seq] : row.finalTaskHash;
    }

    // ── Tasks ────────────────────────────────────────────────────────────────

    function createTask(
        State storage self,
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
        RunRow storage run = self.runs[task.workflowRunId];
        if (task.stage == FINAL_STAGE) {
            run.finalTaskHash = taskHash;
            run.completedAt = task.timestamp;
        } else {
            run.taskHashes.push(taskHash);
        }
        TaskRow storage row = self.tasks[taskHash];
        row.task = task;
        uint256 unprovenCount;
        for (uint256 i = 0; i < task.prevReplyHashes.length; ++i) {
            ReplyRow storage prev = self.replies[task.prevReplyHashes[i]];
            if (prev.proven != 0) continue;
            prev.children.push(taskHash);
            ++unprovenCount;
        }
        if (unprovenCount != 0) row.unprovenCount = unprovenCount;
        if (lane != 0) row.lane = lane;
        if (attempt != 0) row.attempt = attempt;
    }

    function flagTask(State storage self, bytes32 taskHash, uint8 flag) internal {
        if (flag & CLOSED != 0) self.tasks[taskHash].closed = 1;
        if (flag & ANSWERED != 0) self.tasks[taskHash].answered = 1;
    }

    function loadTaskHead(State storage self, bytes32 taskHash) internal view returns (TaskHead memory head) {
        TaskRow storage row = self.tasks[taskHash];
        head.timestamp = uint40(row.task.timestamp);
        if (head.timestamp == 0) return head; // unknown
        head.runIndex = uint40(self.runs[row.task.workflowRunId].index);
        head.seq = uint32(row.task.taskSeq);
        head.stage = row.task.stage;
        head.unprovenCount = uint16(row.unprovenCount);
        head.lane = uint8(row.lane);
        head.attempt = uint8(row.attempt);
        if (row.closed != 0) head.flags |= CLOSED;
        if (row.answered != 0) head.flags |= ANSWERED;
    }

    function expiryOf(State storage self, bytes32 taskHash, TaskHead memory) internal view returns (uint256) {
        return self.tasks[taskHash].task.expiresAt;
    }

    function inputHashOf(State storage self, bytes32 taskHash, TaskHead memory) internal view returns (bytes32) {
        return self.tasks[taskHash].task.inputHash;
    }

    function loadTask(State storage self, bytes32 taskHash, TaskHead memory)
        internal
        view
        returns (AgentTask memory task)
    {
        return self.tasks[taskHash].task;
    }

    function isOpen(Run memory run_, TaskHead memory task) internal pure returns (bool) {
        return task.seq >= run_.firstOpenSeq && task.flags & CLOSED == 0;
    }

    function areOpen(State storage self, Run memory run_, bytes32[] memory taskHashes) internal view returns (bool) {
        for (uint256 i = 0; i < taskHashes.length; ++i) {
            TaskRow storage row = self.tasks[taskHashes[i]];
            if (row.task.taskSeq < run_.firstOpenSeq || row.closed != 0) return false;
        }
        return true;
    }

    // ── Replies ──────────────────────────────────────────────────────────────

    function storeReply(
        State storage self,
        bytes32 operationKey,
        bytes32 replyHash,
        AgentReply memory reply,
        TaskHead[] memory
    ) internal {
        OperationRow storage operation = self.operations[operationKey];
        operation.replyDigest = reply.replyDigest();
        operation.replyHash = replyHash;
        ReplyRow storage row = self.replies[replyHash];
        row.reply = reply;
        row.anchoredAt = block.timestamp;
    }

    function isBound(State storage self, bytes32 operationKey) internal view returns (bool) {
        return self.operations[operationKey].replyHash != 0;
    }

    function loadOperation(State storage self, uint256, bytes32 workflowRunId, address replier, bytes32 operationId)
        internal
        view
        returns (AgentReply memory reply)
    {
        bytes32 operationKey = WorkflowHashing.operationKey(workflowRunId, replier, operationId);
        return self.replies[self.operations[operationKey].replyHash].reply;
    }

    function loadReplyHead(State storage self, bytes32 replyHash) internal view returns (ReplyHead memory head) {
        ReplyRow storage row = self.replies[replyHash];
        head.replier = row.reply.replier;
        if (head.replier == address(0)) return head; // unknown
        head.runIndex = uint40(self.runs[row.reply.workflowRunId].index);
        head.proven = row.proven != 0;
    }

    function loadReply(State storage self, bytes32 replyHash, ReplyHead memory)
        internal
        view
        returns (AgentReply memory reply)
    {
        AgentReply storage row = self.replies[replyHash].reply;
        reply.operationId = row.operationId;
        reply.outputHash = row.outputHash;
        reply.timestamp = row.timestamp;
        reply.replier = row.replier;
        reply.prevTaskHashes = row.prevTaskHashes;
        reply.workflowRunId = row.workflowRunId;
    }

    function outputOf(State storage self, bytes32 replyHash) internal view returns (bytes memory) {
        return self.replies[replyHash].reply.output;
    }

    function runIndexOf(State storage self, bytes32 replyHash) internal view returns (uint256) {
        return self.runs[self.replies[replyHash].reply.workflowRunId].index;
    }

    function isProven(State storage self, bytes32 replyHash) internal view returns (bool) {
        return self.replies[replyHash].proven != 0;
    }

    function outputHashOf(State storage self, bytes32 replyHash) internal view returns (bytes32) {
        return self.replies[replyHash].reply.outputHash;
    }

    function anchorTimeOf(State storage self, bytes32 replyHash) internal view returns (uint256) {
        return self.replies[replyHash].anchoredAt;
    }

    function verificationDigestOf(State storage self, bytes32 replyHash) internal view returns (bytes32) {
        return self.replies[replyHash].verificationDigest;
    }

    function markProven(State storage self, bytes32 replyHash, bytes32 verificationDigest) internal {
        ReplyRow storage row = self.replies[replyHash];
        row.proven = 1;
        row.verificationDigest = verificationDigest;
        for (uint256 i = 0; i < row.children.length; ++i) {
            --self.tasks[row.children[i]].unprovenCount;
        }
    }

    function copy(bytes storage data) internal pure returns (bytes memory) {
        return data;
    }
}
