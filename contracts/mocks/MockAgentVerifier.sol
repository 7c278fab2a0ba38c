// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {IAgentVerifier} from "../interfaces/IAgentVerifier.sol";
import {WorkflowHashing} from "../workflow/WorkflowHashing.sol";

/// @title  MockAgentVerifier
/// @notice Test double for ERC-8274 option A. Proves nothing: anyone can compute the proof it accepts. It does refuse
///         every other statement, so that a workflow which passes the wrong hashes fails.
contract MockAgentVerifier is IAgentVerifier {
    bytes32 private constant _PROFILE = keccak256("mock-test-only-v1");

    /// @notice Profile that enters the verification digest, so that the digest can be recomputed.
    function agentProofProfile() external pure returns (bytes32) {
        return _PROFILE;
    }

    /// @inheritdoc IAgentVerifier
    /// @dev Accepts exactly keccak256(abi.encodePacked(inputHash, outputHash)) as 32 raw bytes.
    function verify(bytes32 taskId, bytes32 agentId, bytes32 inputHash, bytes32 outputHash, bytes calldata proof)
        external
        returns (bool valid, bytes32 digest)
    {
        valid = proof.length == 32 && bytes32(proof) == keccak256(abi.encodePacked(inputHash, outputHash));
        digest = WorkflowHashing.verificationDigest(taskId, agentId, inputHash, outputHash, valid, _PROFILE);
        emit VerificationCompleted(taskId, agentId, inputHash, outputHash, valid, digest);
    }
}
