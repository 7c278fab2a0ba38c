// SPDX-License-Identifier: CC0-1.0
pragma solidity ^0.8.0;

/// @title  IProofVerifier
/// @notice Inner, stateless verifier of ERC-8274 AI Inference Proof Verification. Selector of `verify`:
///         `0xfc2b4271`.
interface IProofVerifier {
    /// @notice Verify that `outputHash` follows from `inputHash` under `metadata`.
    /// @param  inputHash  keccak256 of the input
    /// @param  outputHash keccak256 of the output
    /// @param  metadata   Deployment-time configuration: circuit key, enclave hash, etc.
    /// @param  proof      Verifier-specific proof bytes
    /// @return valid      Whether the proof holds
    function verify(bytes32 inputHash, bytes32 outputHash, bytes calldata metadata, bytes calldata proof)
        external
        returns (bool valid);

    /// @notice Name of the proof system, e.g. `attestation/wyriwe`.
    function proofSystem() external view returns (string memory);

    /// @notice Identifier of the exact profile of the proof system that this verifier accepts.
    function proofProfile() external view returns (bytes32);
}
