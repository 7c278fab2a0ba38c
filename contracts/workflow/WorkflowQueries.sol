// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentReply, RunStatus} from "../interfaces/IAgentWorkflow.sol";
import {IAgentWorkflowErrors} from "../interfaces/IAgentWorkflowErrors.sol";
import {OpenTask} from "../interfaces/IWorkflowViews.sol";
import {ANSWERED, Run, TaskHead, WorkflowStorage} from "./WorkflowStorage.sol";
import {MAX_PARALLEL_TASKS} from "./WorkflowTypes.sol";

/// @title  WorkflowQueries
/// @notice The longer answers of IWorkflowViews, read from a workflow's storage.
library WorkflowQueries {
    using WorkflowStorage for WorkflowStorage.State;

    /// @dev Longest run, in tasks, that `isChainProven` walks over.
    uint256 private constant _MAX_WALK = 1024;

    /// @dev Open tasks of a run, in order of dispatch; none once it has ended.
    /// @param proofWindow Of the run's current stage, to which every open task belongs
    function openTasks(WorkflowStorage.State storage store, Run memory run_, uint256 proofWindow)
        internal
        view
        returns (OpenTask[] memory tasks)
    {
        if (run_.status != RunStatus.Pending) return tasks;
        OpenTask[] memory found = new OpenTask[](MAX_PARALLEL_TASKS);
        uint256 count;
        for (uint32 seq = run_.firstOpenSeq; seq < run_.taskCount; ++seq) {
            bytes32 taskHash = store.taskHashAt(run_.index, seq);
            TaskHead memory head = store.loadTaskHead(taskHash);
            if (!WorkflowStorage.isOpen(run_, head)) continue;
            (uint256 expiresAt, uint256 deadline) = expiryAndDeadline(store, taskHash, head, proofWindow);
            found[count++] = OpenTask(taskHash, seq, head.lane, expiresAt, deadline);
        }
        tasks = new OpenTask[](count);
        for (uint256 i = 0; i < count; ++i) {
            tasks[i] = found[i];
        }
    }

    /// @dev The last moment for a reply, and the moment after which the task may be timed out; 0 = never. A task that was
    ///      answered is given its stage's proof window on top (not needed beyond the year 36,800).
    function expiryAndDeadline(
        WorkflowStorage.State storage store,
        bytes32 taskHash,
        TaskHead memory task,
        uint256 proofWindow
    ) internal view returns (uint256 expiresAt, uint256 deadline) {
        expiresAt = deadline = store.expiryOf(taskHash, task);
        if (expiresAt != 0 && expiresAt <= type(uint40).max && task.flags & ANSWERED != 0) deadline += proofWindow;
    }

    /// @dev Whether every reply upstream of a known task is proven. Tasks answer only earlier ones, so one pass backwards over
    ///      the run is enough.
    function isChainProven(WorkflowStorage.State storage store, TaskHead memory task) internal view returns (bool) {
        if (task.seq >= _MAX_WALK) revert IAgentWorkflowErrors.ChainTooLong(_MAX_WALK);
        bool[] memory upstream = new bool[](task.seq + 1);
        upstream[task.seq] = true;
        for (uint256 next = upstream.length; next > 0; --next) {
            uint256 seq = next - 1;
            if (!upstream[seq]) continue;
            bytes32 taskHash = store.taskHashAt(task.runIndex, seq);
            TaskHead memory head = store.loadTaskHead(taskHash);
            if (head.unprovenCount != 0) return false;
            bytes32[] memory replyHashes = store.loadTask(taskHash, head).prevReplyHashes;
            for (uint256 i = 0; i < replyHashes.length; ++i) {
                AgentReply memory reply = store.loadReply(replyHashes[i], store.loadReplyHead(replyHashes[i]));
                for (uint256 j = 0; j < reply.prevTaskHashes.length; ++j) {
                    upstream[store.loadTaskHead(reply.prevTaskHashes[j]).seq] = true;
                }
            }
        }
        return true;
    }
}
