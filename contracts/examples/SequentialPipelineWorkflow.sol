// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Stages} from "../workflow/Stages.sol";
import {StaticStage, StaticWorkflow} from "../workflow/StaticWorkflow.sol";
import {FINAL_STAGE, GateInput, Verdict} from "../workflow/WorkflowTypes.sol";

/// @title  SequentialPipelineWorkflow
/// @notice ERC-8301 Scenario 3: A -> B -> C, each stage's output is the next stage's input. StepA and StepB pass on the
///         first reply and can be proven afterwards, until the run ends; StepC passes only with its proof.
contract SequentialPipelineWorkflow is StaticWorkflow {
    enum Stage {
        StepA,
        StepB,
        StepC
    }

    /// @param verifier IAgentVerifier that proves replies of every stage
    constructor(address verifier) StaticWorkflow(_table(verifier)) {}

    function _judge(GateInput memory) internal pure override returns (Verdict) {
        return Verdict.Pass;
    }

    function _table(address verifier) private pure returns (StaticStage[] memory table) {
        table = new StaticStage[](3);
        table[uint8(Stage.StepA)] = StaticStage(Stages.asyncStage(verifier, 7 days, 1), 1, uint8(Stage.StepB));
        table[uint8(Stage.StepB)] = StaticStage(Stages.asyncStage(verifier, 7 days, 1), 1, uint8(Stage.StepC));
        table[uint8(Stage.StepC)] = StaticStage(Stages.syncStage(verifier, 7 days, 1 days, 1), 1, FINAL_STAGE);
    }
}
