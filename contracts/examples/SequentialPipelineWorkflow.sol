// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {StaticStage, StaticWorkflow} from "../workflow/StaticWorkflow.sol";
import {FINAL_STAGE, GateInput, StageConfig, StageMode, Verdict, VerifierOption} from "../workflow/WorkflowTypes.sol";

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
        table[uint8(Stage.StepA)] = _step(StageMode.Async, verifier, uint8(Stage.StepB));
        table[uint8(Stage.StepB)] = _step(StageMode.Async, verifier, uint8(Stage.StepC));
        table[uint8(Stage.StepC)] = _step(StageMode.Sync, verifier, FINAL_STAGE);
    }

    function _step(StageMode mode, address verifier, uint8 next) private pure returns (StaticStage memory) {
        return StaticStage(StageConfig(mode, VerifierOption.AgentVerifier, verifier, 7 days, ""), next);
    }
}
