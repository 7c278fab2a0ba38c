// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentReply, AgentTask} from "../../contracts/interfaces/IAgentWorkflow.sol";

/// @notice A second implementation of the hash formulas of ERC-8301, word by word and without abi.encode, to be compared
///         with `WorkflowHashing`. A static value is one 32-byte word, numbers and addresses right-aligned.
library PlainHashing {
    function taskHash(AgentTask memory task) internal pure returns (bytes32) {
        return keccak256(
            bytes.concat(
                bytes32(uint256(task.stage)),
                bytes32(task.taskSeq),
                task.inputHash,
                bytes32(task.timestamp),
                bytes32(task.expiresAt),
                listHash(task.prevReplyHashes),
                task.workflowRunId
            )
        );
    }

    function replyHash(AgentReply memory reply) internal pure returns (bytes32) {
        return keccak256(
            bytes.concat(
                reply.operationId,
                reply.outputHash,
                bytes32(reply.timestamp),
                word(reply.replier),
                listHash(reply.prevTaskHashes),
                reply.workflowRunId
            )
        );
    }

    function replyDigest(AgentReply memory reply) internal pure returns (bytes32) {
        return keccak256(
            bytes.concat(reply.outputHash, word(reply.replier), listHash(reply.prevTaskHashes), reply.workflowRunId)
        );
    }

    function operationKey(bytes32 workflowRunId, address replier, bytes32 operationId) internal pure returns (bytes32) {
        return keccak256(bytes.concat(workflowRunId, word(replier), operationId));
    }

    function runId(address sender, uint256 blockNumber, uint256 runNonce) internal pure returns (bytes32) {
        return keccak256(bytes.concat(word(sender), bytes32(blockNumber), bytes32(runNonce)));
    }

    function verificationDigest(
        bytes32 taskId,
        bytes32 agentId,
        bytes32 inputHash,
        bytes32 outputHash,
        bool valid,
        bytes32 agentProofProfile
    ) internal pure returns (bytes32) {
        bytes32 verdict = valid ? bytes32(uint256(1)) : bytes32(0);
        return keccak256(bytes.concat(taskId, agentId, inputHash, outputHash, verdict, agentProofProfile));
    }

    /// @dev keccak256 of the elements one after the other; of no element, that of the empty string.
    function listHash(bytes32[] memory hashes) internal pure returns (bytes32) {
        bytes memory joined;
        for (uint256 i = 0; i < hashes.length; ++i) {
            joined = bytes.concat(joined, hashes[i]);
        }
        return keccak256(joined);
    }

    function word(address account) internal pure returns (bytes32) {
        return bytes32(bytes.concat(new bytes(12), bytes20(account)));
    }
}
