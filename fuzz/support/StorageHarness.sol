// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentReply, AgentTask} from "../../contracts/interfaces/IAgentWorkflow.sol";
import {WorkflowHashing} from "../../contracts/workflow/WorkflowHashing.sol";
import {
    ANSWERED,
    CLOSED,
    ReplyHead,
    Run,
    TaskHead,
    WorkflowStorage
} from "../../contracts/workflow/WorkflowStorage.sol";

/// @notice `WorkflowStorage` with its functions open, for round trips. Keeps no rule of the state machine.
contract StorageHarness {
    using WorkflowStorage for WorkflowStorage.State;

    WorkflowStorage.State private _store;

    constructor() {
        _store.open();
    }

    function openRun(address sender) external returns (bytes32 workflowRunId) {
        Run memory run_;
        (workflowRunId, run_) = _store.openRun(sender);
        _store.saveRun(workflowRunId, run_);
    }

    function createTask(AgentTask memory task, bool derivedInput, uint8 lane, uint8 attempt)
        external
        returns (bytes32 taskHash)
    {
        Run memory run_ = _store.loadRun(task.workflowRunId);
        taskHash = _store.createTask(run_, task, derivedInput, lane, attempt);
        _store.saveRun(task.workflowRunId, run_);
    }

    function flagTask(bytes32 taskHash, bool closed, bool answered) external {
        if (closed) _store.flagTask(taskHash, CLOSED);
        if (answered) _store.flagTask(taskHash, ANSWERED);
    }

    function storeReply(AgentReply memory reply) external returns (bytes32 replyHash) {
        TaskHead[] memory tasks = new TaskHead[](reply.prevTaskHashes.length);
        for (uint256 i = 0; i < tasks.length; ++i) {
            tasks[i] = _store.loadTaskHead(reply.prevTaskHashes[i]);
        }
        replyHash = WorkflowHashing.replyHash(reply);
        bytes32 key = WorkflowHashing.operationKey(reply.workflowRunId, reply.replier, reply.operationId);
        _store.storeReply(key, replyHash, reply, tasks);
    }

    function markProven(bytes32 replyHash, bytes32 verificationDigest) external {
        _store.markProven(replyHash, verificationDigest);
    }

    function taskOf(bytes32 taskHash) external view returns (AgentTask memory, TaskHead memory) {
        TaskHead memory head = _store.loadTaskHead(taskHash);
        return (_store.loadTask(taskHash, head), head);
    }

    function taskHashAt(bytes32 workflowRunId, uint32 seq) external view returns (bytes32) {
        return _store.taskHashAt(_store.loadRun(workflowRunId).index, seq);
    }

    function replyOf(bytes32 replyHash) external view returns (AgentReply memory, ReplyHead memory) {
        ReplyHead memory head = _store.loadReplyHead(replyHash);
        AgentReply memory reply = _store.loadReply(replyHash, head);
        reply.output = _store.outputOf(replyHash);
        return (reply, head);
    }

    function operation(bytes32 workflowRunId, address replier, bytes32 operationId)
        external
        view
        returns (bool bound, AgentReply memory reply_)
    {
        bound = _store.isBound(WorkflowHashing.operationKey(workflowRunId, replier, operationId));
        if (bound) {
            reply_ = _store.loadOperation(_store.loadRun(workflowRunId).index, workflowRunId, replier, operationId);
        }
    }

    function anchorTime(bytes32 replyHash) external view returns (uint256) {
        return _store.anchorTimeOf(replyHash);
    }

    function digestOf(bytes32 replyHash) external view returns (bytes32) {
        return _store.verificationDigestOf(replyHash);
    }

    function closedFlag() external pure returns (uint8) {
        return CLOSED;
    }

    function answeredFlag() external pure returns (uint8) {
        return ANSWERED;
    }
}
