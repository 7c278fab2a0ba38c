// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {IAgentVerifiable} from "../interfaces/IAgentVerifiable.sol";
import {IAgentVerifier} from "../interfaces/IAgentVerifier.sol";
import {IAgentWorkflow, RunStatus} from "../interfaces/IAgentWorkflow.sol";
import {IProofVerifier} from "../interfaces/IProofVerifier.sol";

/// @title  InterfaceHarness
/// @notice Test double that says what the compiler makes of the interfaces where their ABI does not: interface ids and the
///         order of an enum.
contract InterfaceHarness {
    function agentWorkflowId() external pure returns (bytes4) {
        return type(IAgentWorkflow).interfaceId;
    }

    function agentVerifierId() external pure returns (bytes4) {
        return type(IAgentVerifier).interfaceId;
    }

    function agentVerifiableId() external pure returns (bytes4) {
        return type(IAgentVerifiable).interfaceId;
    }

    function proofVerifierId() external pure returns (bytes4) {
        return type(IProofVerifier).interfaceId;
    }

    function runStatusValues() external pure returns (uint8 pending, uint8 success, uint8 failed, uint8 last) {
        return (uint8(RunStatus.Pending), uint8(RunStatus.Success), uint8(RunStatus.Failed), uint8(type(RunStatus).max));
    }
}
