// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentReply, AgentTask} from "../interfaces/IAgentWorkflow.sol";

/// @title  WorkflowHashing
/// @notice The hash formulas of ERC-8301 (Data Envelopes; `run()`, Run Initiation) and the verification digest of
///         ERC-8274. Pure; the single home of these formulas on chain.
library WorkflowHashing {
    /// @notice Identity of a dispatched task. The input plaintext is not part of it.
    function taskHash(AgentTask memory task) internal pure returns (bytes32) {
        return keccak256(
            abi.encode(
                task.stage,
                task.taskSeq,
                task.inputHash,
                task.timestamp,
                task.expiresAt,
                listHash(task.prevReplyHashes),
                task.workflowRunId
            )
        );
    }

    /// @notice Identity of an anchored reply. The output plaintext is not part of it.
    function replyHash(AgentReply memory reply) internal pure returns (bytes32) {
        return keccak256(
            abi.encode(
                reply.operationId,
                reply.outputHash,
                reply.timestamp,
                reply.replier,
                listHash(reply.prevTaskHashes),
                reply.workflowRunId
            )
        );
    }

    /// @notice Stable content of a logical operation: what a retry must repeat. Excludes `timestamp`.
    function replyDigest(AgentReply memory reply) internal pure returns (bytes32) {
        return
            keccak256(abi.encode(reply.outputHash, reply.replier, listHash(reply.prevTaskHashes), reply.workflowRunId));
    }

    /// @notice Scope of an operation id: one replier in one run.
    function operationKey(bytes32 workflowRunId, address replier, bytes32 operationId) internal pure returns (bytes32) {
        return keccak256(abi.encode(workflowRunId, replier, operationId));
    }

    /// @notice The recommended form of a run identifier. Unique within one contract on one chain.
    function runId(address sender, uint256 blockNumber, uint256 runNonce) internal pure returns (bytes32) {
        return keccak256(abi.encode(sender, blockNumber, runNonce));
    }

    /// @notice The digest an ERC-8274 IAgentVerifier returns.
    function verificationDigest(
        bytes32 taskId,
        bytes32 agentId,
        bytes32 inputHash,
        bytes32 outputHash,
        bool valid,
        bytes32 agentProofProfile
    ) internal pure returns (bytes32) {
        return keccak256(abi.encode(taskId, agentId, inputHash, outputHash, valid, agentProofProfile));
    }

    /// @notice Hash of a list of links. Empty gives keccak256(""), never zero (ERC-8301, AgentTask).
    function listHash(bytes32[] memory hashes) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(hashes));
    }
}
