// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentReply, AgentTask, IAgentWorkflow} from "../interfaces/IAgentWorkflow.sol";
import {WorkflowHashing} from "../workflow/WorkflowHashing.sol";

/// @notice Test double that exposes WorkflowHashing, so that golden vectors can be checked in the EVM.
contract WorkflowHashingHarness {
    function taskHash(AgentTask calldata task) external pure returns (bytes32) {
        return WorkflowHashing.taskHash(task);
    }

    function replyHash(AgentReply calldata reply) external pure returns (bytes32) {
        return WorkflowHashing.replyHash(reply);
    }

    function replyDigest(AgentReply calldata reply) external pure returns (bytes32) {
        return WorkflowHashing.replyDigest(reply);
    }

    function operationKey(bytes32 workflowRunId, address replier, bytes32 operationId) external pure returns (bytes32) {
        return WorkflowHashing.operationKey(workflowRunId, replier, operationId);
    }

    function runId(address sender, uint256 blockNumber, uint256 runNonce) external pure returns (bytes32) {
        return WorkflowHashing.runId(sender, blockNumber, runNonce);
    }

    function verificationDigest(
        bytes32 taskId,
        bytes32 agentId,
        bytes32 inputHash,
        bytes32 outputHash,
        bool valid,
        bytes32 agentProofProfile
    ) external pure returns (bytes32) {
        return WorkflowHashing.verificationDigest(taskId, agentId, inputHash, outputHash, valid, agentProofProfile);
    }

    /// @notice keccak256 of raw bytes, for vectors that hash a plain concatenation (commit-reveal).
    function hashBytes(bytes calldata data) external pure returns (bytes32) {
        return keccak256(data);
    }

    function agentWorkflowInterfaceId() external pure returns (bytes4) {
        return type(IAgentWorkflow).interfaceId;
    }
}
