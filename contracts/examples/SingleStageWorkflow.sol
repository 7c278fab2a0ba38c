// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Stages} from "../workflow/Stages.sol";
import {StaticStage, StaticWorkflow} from "../workflow/StaticWorkflow.sol";
import {FINAL_STAGE, GateInput, Verdict} from "../workflow/WorkflowTypes.sol";

/// @title  SingleStageWorkflow
/// @notice ERC-8301 Scenario 0: one task, one reply, one proof. Anyone may reply; the first reply with a valid proof
///         completes the run.
contract SingleStageWorkflow is StaticWorkflow {
    enum Stage {
        Execute
    }

    /// @param verifier IAgentVerifier that proves replies
    constructor(address verifier) StaticWorkflow(_table(verifier)) {}

    function _judge(GateInput memory) internal pure override returns (Verdict) {
        return Verdict.Pass; // the proof is the judgement
    }

    function _table(address verifier) private pure returns (StaticStage[] memory table) {
        table = new StaticStage[](1);
        table[uint8(Stage.Execute)] = StaticStage(Stages.syncStage(verifier, 7 days, 1 days, 1), 1, FINAL_STAGE);
    }
}
