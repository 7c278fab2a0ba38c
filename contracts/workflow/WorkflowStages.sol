// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {IAgentWorkflowErrors} from "../interfaces/IAgentWorkflowErrors.sol";
import {StageConfig, StageMode, VerifierOption} from "../interfaces/IWorkflowViews.sol";
import {FINAL_STAGE} from "./WorkflowTypes.sol";

/// @dev A StageConfig as it is kept, in one slot; its metadata, which most stages lack, is kept apart.
struct StagePolicy {
    StageMode mode;
    VerifierOption option;
    address verifier;
    uint32 window;
    uint32 proofWindow;
    uint8 maxRetries;
    bool requireUpstreamProven;
}

/// @title  WorkflowStages
/// @notice What a stage table must be to deploy (ERC-8301, Execution Model: the set of stages is fixed at deployment).
library WorkflowStages {
    /// @param stages Proof and time policy of each stage; a stage's number is its position
    function check(StageConfig[] memory stages) internal view {
        if (stages.length == 0 || stages.length > FINAL_STAGE) {
            revert IAgentWorkflowErrors.InvalidStageCount(stages.length, FINAL_STAGE);
        }
        for (uint256 i = 0; i < stages.length; ++i) {
            _checkStage(uint8(i), stages[i]);
        }
    }

    function _checkStage(uint8 stage, StageConfig memory config) private view {
        if (config.option == VerifierOption.None) {
            if (config.mode == StageMode.Sync) revert IAgentWorkflowErrors.SyncStageWithoutVerifier(stage);
            if (config.verifier != address(0)) revert IAgentWorkflowErrors.UnusedStageSetting(stage);
        } else if (config.verifier.code.length == 0) {
            revert IAgentWorkflowErrors.VerifierWithoutCode(stage, config.verifier);
        }
        if (config.option != VerifierOption.ProofVerifier && config.metadata.length != 0) {
            revert IAgentWorkflowErrors.UnusedStageSetting(stage);
        }
        if (config.mode == StageMode.Async && config.proofWindow != 0) {
            revert IAgentWorkflowErrors.UnusedStageSetting(stage);
        }
        if (config.maxRetries != 0 && config.window == 0) revert IAgentWorkflowErrors.RetriesWithoutWindow(stage);
    }
}
