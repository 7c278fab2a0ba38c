// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentWorkflow} from "./AgentWorkflow.sol";
import {FINAL_STAGE, GateDecision, GateInput, StageConfig, StageMode, Verdict} from "./WorkflowTypes.sol";

/// @notice One stage of a static workflow.
struct StaticStage {
    StageConfig config;
    uint8 next; // the stage that follows, or FINAL_STAGE
}

/// @title  StaticWorkflow
/// @notice An ERC-8301 workflow whose path is fixed at deployment (ERC-8301, Static vs Dynamic FSM): it begins at stage 0,
///         every stage is dispatched, and each has exactly one successor. The gate judges replies; it cannot choose where
///         to go.
/// @dev    A child passes the stage table to the constructor and MUST implement `_judge`.
abstract contract StaticWorkflow is AgentWorkflow {
    /// @dev Written by the constructor only.
    mapping(uint256 stage => uint8 next) private _next;

    /// @param table The stages; a stage's number is its position. Following `next` from stage 0 must pass every stage once
    ///              and end at FINAL_STAGE from a sync stage.
    constructor(StaticStage[] memory table) AgentWorkflow(_configs(table)) {
        bool[] memory passed = new bool[](table.length);
        uint8 stage = 0;
        while (stage != FINAL_STAGE) {
            passed[stage] = true;
            uint8 next = table[stage].next;
            _next[stage] = next;
            if (next == FINAL_STAGE) {
                if (table[stage].config.mode != StageMode.Sync) revert FinalGateNotSync(stage);
            } else {
                if (next >= table.length) revert UnknownStage(next);
                if (passed[next]) revert StageCycle(stage, next);
            }
            stage = next;
        }
        for (uint256 i = 0; i < table.length; ++i) {
            if (!passed[i]) revert UnreachableStage(uint8(i));
        }
    }

    /// @notice The stage that follows `stage`; FINAL_STAGE (255) after the last one.
    function nextStage(uint8 stage) external view returns (uint8) {
        _requireStage(stage);
        return _next[stage];
    }

    /// @dev Judges one reply: Pass, Retry, Abort or Silent. When it is called and what a revert means: see
    ///      `AgentWorkflow._gate`.
    function _judge(GateInput memory input) internal virtual returns (Verdict);

    /// @inheritdoc AgentWorkflow
    function _begin(bytes32, bytes32 inputHash)
        internal
        pure
        override
        returns (uint8 stage, bytes32[] memory inputHashes)
    {
        inputHashes = new bytes32[](1);
        inputHashes[0] = inputHash;
        return (0, inputHashes);
    }

    /// @inheritdoc AgentWorkflow
    function _gate(GateInput memory input) internal override returns (GateDecision memory decision) {
        decision.verdict = _judge(input);
        decision.nextStage = _next[input.stage];
    }

    function _configs(StaticStage[] memory table) private pure returns (StageConfig[] memory configs) {
        configs = new StageConfig[](table.length);
        for (uint256 i = 0; i < table.length; ++i) {
            configs[i] = table[i].config;
        }
    }
}
