// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {IAgentWorkflowErrors} from "../interfaces/IAgentWorkflowErrors.sol";
import {StageConfig, StageMode, VerifierOption} from "../interfaces/IStaticWorkflow.sol";
import {FINAL_STAGE} from "./WorkflowTypes.sol";

/// @title  WorkflowStages
/// @notice The stages of a workflow: checked once, at deployment, and fixed from then on (ERC-8301, Execution Model).
abstract contract WorkflowStages is IAgentWorkflowErrors {
    uint256 private immutable _count;

    /// @dev Written by the constructor only. All but `metadata` share one slot.
    mapping(uint256 stage => StageConfig) private _stages;

    /// @param stages Proof and time policy of each stage; a stage's number is its position
    constructor(StageConfig[] memory stages) {
        if (stages.length == 0 || stages.length > FINAL_STAGE) {
            revert InvalidStageCount(stages.length, FINAL_STAGE);
        }
        _count = stages.length;
        for (uint256 i = 0; i < stages.length; ++i) {
            _checkConfig(uint8(i), stages[i]);
            _stages[i] = stages[i];
        }
    }

    /// @notice Proof and time policy of a stage; it never changes. Reverts with UnknownStage.
    /// @return config       The stage's policy
    /// @return metadataHash keccak256 of `config.metadata`
    function stageConfig(uint8 stage) external view returns (StageConfig memory config, bytes32 metadataHash) {
        _requireStage(stage);
        config = _stages[stage];
        metadataHash = keccak256(config.metadata);
    }

    function _stageCount() internal view returns (uint256) {
        return _count;
    }

    /// @dev Of a known stage.
    function _stage(uint8 stage) internal view returns (StageConfig storage) {
        return _stages[stage];
    }

    function _requireStage(uint8 stage) internal view {
        if (stage >= _count) revert UnknownStage(stage);
    }

    function _checkConfig(uint8 stage, StageConfig memory config) private view {
        if (config.option == VerifierOption.None) {
            if (config.mode == StageMode.Sync) revert SyncStageWithoutVerifier(stage);
            if (config.verifier != address(0)) revert UnusedStageSetting(stage);
        } else if (config.verifier.code.length == 0) {
            revert VerifierWithoutCode(stage, config.verifier);
        }
        if (config.option != VerifierOption.ProofVerifier && config.metadata.length != 0) {
            revert UnusedStageSetting(stage);
        }
        if (config.mode == StageMode.Async && config.proofWindow != 0) revert UnusedStageSetting(stage);
        if (config.maxRetries != 0 && config.window == 0) revert RetriesWithoutWindow(stage);
    }
}
