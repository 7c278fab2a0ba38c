// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Stages} from "../workflow/Stages.sol";
import {StaticStage, StaticWorkflow} from "../workflow/StaticWorkflow.sol";
import {FINAL_STAGE, GateInput, Verdict} from "../workflow/WorkflowTypes.sol";

/// @title  ManyStagesWorkflow
/// @notice Test double of a static workflow of any length. It makes its own table, because one of more than about sixty
///         stages does not fit the initcode of a deployment (EIP-3860).
contract ManyStagesWorkflow is StaticWorkflow {
    /// @param verifier IAgentVerifier that proves replies of every stage
    /// @param count    Stages, all sync, each leading to the next
    constructor(address verifier, uint256 count) StaticWorkflow(_table(verifier, count)) {}

    function _judge(GateInput memory) internal pure override returns (Verdict) {
        return Verdict.Pass;
    }

    function _table(address verifier, uint256 count) private pure returns (StaticStage[] memory table) {
        table = new StaticStage[](count);
        for (uint256 i = 0; i < count; ++i) {
            // A table of more than 255 stages wraps around here, and is refused before it is read.
            table[i] = StaticStage(
                Stages.syncStage(verifier, uint32(i + 1), 0, 0), 1, i + 1 == count ? FINAL_STAGE : uint8(i + 1)
            );
        }
    }
}
