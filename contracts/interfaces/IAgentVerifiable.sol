// SPDX-License-Identifier: CC0-1.0
pragma solidity ^0.8.0;

/// @title  IAgentVerifiable
/// @notice ERC-8274: a contract that names the IAgentVerifier it relies on.
interface IAgentVerifiable {
    /// @notice Emitted when the verifier is replaced.
    event AgentVerifierUpdated(address indexed oldVerifier, address indexed newVerifier);

    /// @notice The IAgentVerifier in use.
    function agentVerifier() external view returns (address);
}
