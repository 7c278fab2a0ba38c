// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {ERC165} from "@openzeppelin/contracts/utils/introspection/ERC165.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";

import {AgentReply, AgentTask, IAgentWorkflow, RunStatus} from "../interfaces/IAgentWorkflow.sol";
import {IWorkflowViews, OpenTask} from "../interfaces/IWorkflowViews.sol";
import {WorkflowHashing} from "./WorkflowHashing.sol";
import {WorkflowStages} from "./WorkflowStages.sol";
import {WorkflowStorage} from "./WorkflowStorage.sol";
import {MAX_PARALLEL_TASKS} from "./WorkflowTypes.sol";

/// @title  WorkflowQueries
/// @notice Everything about a workflow that can be asked and changes nothing: the getters of ERC-8301 and IWorkflowViews.
abstract contract WorkflowQueries is IAgentWorkflow, IWorkflowViews, WorkflowStorage, WorkflowStages, ERC165 {
    using WorkflowHashing for AgentReply;

    /// @dev Most tasks that `isChainProven` walks over.
    uint256 private constant _MAX_WALK = 256;

    // ── ERC-8301 ─────────────────────────────────────────────────────────────

    /// @inheritdoc IAgentWorkflow
    function result(bytes32 workflowRunId)
        external
        view
        returns (RunStatus status, bytes32 finalTaskHash, uint256 completedAt)
    {
        Run memory run_ = _loadRun(workflowRunId);
        status = run_.status;
        if (status == RunStatus.Success) {
            finalTaskHash = _taskHashAt(run_, run_.taskCount - 1);
            completedAt = _loadTaskHead(finalTaskHash).timestamp;
        }
    }

    /// @inheritdoc IAgentWorkflow
    function getAgentTask(bytes32 taskHash) external view returns (AgentTask memory task, bool proven) {
        TaskHead memory head = _requireTask(taskHash);
        return (_loadTask(taskHash, head), head.unprovenCount == 0);
    }

    /// @inheritdoc IAgentWorkflow
    /// @dev `verifier` is zero until the reply is proven, then the verifier that was called: its stage's, which never
    ///      changes. `verificationDigest` is zero for option B.
    function getAgentReply(bytes32 replyHash)
        external
        view
        returns (AgentReply memory reply, address verifier, bool proven, bytes32 verificationDigest)
    {
        ReplyHead memory head = _requireReply(replyHash);
        reply = _loadReply(replyHash, head);
        proven = head.proven;
        if (proven) {
            verifier = _stage(_loadTaskHead(reply.prevTaskHashes[0]).stage).verifier;
            verificationDigest = _verificationDigestOf(replyHash);
        }
    }

    /// @inheritdoc IAgentWorkflow
    function getReplyHashByOperation(bytes32 workflowRunId, address replier, bytes32 operationId)
        external
        view
        returns (bytes32 replyHash)
    {
        if (!_isBound(WorkflowHashing.operationKey(workflowRunId, replier, operationId))) return bytes32(0);
        return _loadOperation(_loadRun(workflowRunId).index, workflowRunId, replier, operationId).replyHash();
    }

    // ── IWorkflowViews ───────────────────────────────────────────────────────

    /// @inheritdoc IWorkflowViews
    function runExists(bytes32 workflowRunId) external view returns (bool) {
        return _loadRun(workflowRunId).index != 0;
    }

    /// @inheritdoc IWorkflowViews
    function runState(bytes32 workflowRunId)
        external
        view
        returns (RunStatus status, uint8 stage, OpenTask[] memory openTasks)
    {
        Run memory run_ = _loadRun(workflowRunId);
        if (run_.index == 0) revert UnknownRun(workflowRunId);
        if (run_.status != RunStatus.Pending) return (run_.status, run_.stage, openTasks);

        OpenTask[] memory found = new OpenTask[](MAX_PARALLEL_TASKS);
        uint256 count;
        for (uint32 seq = run_.firstOpenSeq; seq < run_.taskCount; ++seq) {
            bytes32 taskHash = _taskHashAt(run_, seq);
            TaskHead memory head = _loadTaskHead(taskHash);
            if (!_isOpen(run_, head)) continue;
            found[count++] = OpenTask(taskHash, seq, head.lane, _expiryOf(taskHash, head), _deadlineOf(taskHash, head));
        }
        openTasks = new OpenTask[](count);
        for (uint256 i = 0; i < count; ++i) {
            openTasks[i] = found[i];
        }
        return (run_.status, run_.stage, openTasks);
    }

    /// @inheritdoc IWorkflowViews
    function replyAnchorTime(bytes32 replyHash) external view returns (uint256) {
        _requireReply(replyHash);
        return _anchorTimeOf(replyHash);
    }

    /// @inheritdoc IWorkflowViews
    function isChainProven(bytes32 taskHash) external view returns (bool) {
        bytes32[] memory tasks = new bytes32[](_MAX_WALK); // seen; those from `next` on are still to be looked at
        _requireTask(taskHash);
        tasks[0] = taskHash;
        uint256 count = 1;
        for (uint256 next = 0; next < count; ++next) {
            TaskHead memory head = _loadTaskHead(tasks[next]);
            if (head.unprovenCount != 0) return false;
            bytes32[] memory replyHashes = _loadTask(tasks[next], head).prevReplyHashes;
            for (uint256 i = 0; i < replyHashes.length; ++i) {
                AgentReply memory reply = _loadReply(replyHashes[i], _loadReplyHead(replyHashes[i]));
                for (uint256 j = 0; j < reply.prevTaskHashes.length; ++j) {
                    count = _addOnce(tasks, count, reply.prevTaskHashes[j]);
                }
            }
        }
        return true;
    }

    /// @notice ERC-165. Supported: IERC165, IAgentWorkflow (`0x9a50db17`), IWorkflowViews.
    function supportsInterface(bytes4 interfaceId) public view virtual override returns (bool) {
        return interfaceId == type(IAgentWorkflow).interfaceId || interfaceId == type(IWorkflowViews).interfaceId
            || super.supportsInterface(interfaceId);
    }

    // ── Shared with the machine ──────────────────────────────────────────────

    function _isOpen(Run memory run_, TaskHead memory task) internal pure returns (bool) {
        return task.seq >= run_.firstOpenSeq && task.flags & CLOSED == 0;
    }

    /// @dev The moment after which a task may be timed out; 0 = never. A task that was answered in time is given its
    ///      stage's proof window on top.
    function _deadlineOf(bytes32 taskHash, TaskHead memory task) internal view returns (uint256 deadline) {
        deadline = _expiryOf(taskHash, task);
        if (deadline != 0 && task.flags & ANSWERED != 0) {
            deadline = Math.saturatingAdd(deadline, _stage(task.stage).proofWindow);
        }
    }

    function _requireTask(bytes32 taskHash) internal view returns (TaskHead memory head) {
        head = _loadTaskHead(taskHash);
        if (head.timestamp == 0) revert UnknownTask(taskHash);
    }

    function _requireReply(bytes32 replyHash) internal view returns (ReplyHead memory head) {
        head = _loadReplyHead(replyHash);
        if (head.replier == address(0)) revert UnknownReply(replyHash);
    }

    function _addOnce(bytes32[] memory list, uint256 count, bytes32 item) private pure returns (uint256) {
        for (uint256 i = 0; i < count; ++i) {
            if (list[i] == item) return count;
        }
        if (count == list.length) revert ChainTooLong(list.length);
        list[count] = item;
        return count + 1;
    }
}
