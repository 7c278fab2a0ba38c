// SPDX-License-Identifier: CC0-1.0
pragma solidity ^0.8.0;

/// @title  IAgentVerifier
/// @notice Outer, identity-bound verifier of ERC-8274 AI Inference Proof Verification. Selector of `verify`:
///         `0xf2fd7e98`, which is also the interface id.
interface IAgentVerifier {
    /// @notice Emitted for every verification that was carried out, whatever its outcome.
    event VerificationCompleted(
        bytes32 indexed taskId,
        bytes32 indexed agentId,
        bytes32 inputHash,
        bytes32 outputHash,
        bool valid,
        bytes32 verificationDigest
    );

    /// @notice Verify that `agentId` produced `outputHash` from `inputHash` in task `taskId`.
    /// @param  taskId             Task the proof is about; an ERC-8301 workflow passes its workflowRunId
    /// @param  agentId            Agent identity; an ERC-8301 workflow passes bytes32(uint256(uint160(replier)))
    /// @param  inputHash          keccak256 of the input
    /// @param  outputHash         keccak256 of the output
    /// @param  proof              Verifier-specific proof bytes
    /// @return valid              Whether the proof holds
    /// @return verificationDigest keccak256(abi.encode(taskId, agentId, inputHash, outputHash, valid,
    ///                            agentProofProfile))
    function verify(bytes32 taskId, bytes32 agentId, bytes32 inputHash, bytes32 outputHash, bytes calldata proof)
        external
        returns (bool valid, bytes32 verificationDigest);
}
