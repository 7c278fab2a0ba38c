// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {StageConfig, StageMode, VerifierOption} from "../interfaces/IWorkflowViews.sol";

/// @title  Stages
/// @notice Short forms for the stages that most workflows need: option A, no metadata, no upstream requirement. Change a
///         field of the result, or write a `StageConfig` out, for anything else.
library Stages {
    /// @notice The gate runs on every reply; proofs may follow until the run ends.
    /// @param agentVerifier IAgentVerifier that proves replies of this stage
    /// @param window        Seconds that a task stays open; 0 = no expiry
    /// @param maxRetries    How often a task is dispatched anew after a timeout
    function asyncStage(address agentVerifier, uint32 window, uint8 maxRetries)
        internal
        pure
        returns (StageConfig memory)
    {
        return
            StageConfig(StageMode.Async, VerifierOption.AgentVerifier, agentVerifier, window, 0, maxRetries, false, "");
    }

    /// @notice The gate runs only once a reply is proven.
    /// @param agentVerifier IAgentVerifier that proves replies of this stage
    /// @param window        Seconds that a task stays open for replies; 0 = no expiry
    /// @param proofWindow   Seconds after the expiry that an answered task still waits for its proof
    /// @param maxRetries    How often a task is dispatched anew after a timeout
    function syncStage(address agentVerifier, uint32 window, uint32 proofWindow, uint8 maxRetries)
        internal
        pure
        returns (StageConfig memory)
    {
        return StageConfig(
            StageMode.Sync, VerifierOption.AgentVerifier, agentVerifier, window, proofWindow, maxRetries, false, ""
        );
    }
}
