// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Stages} from "../workflow/Stages.sol";
import {StaticStage, StaticWorkflow} from "../workflow/StaticWorkflow.sol";
import {FINAL_STAGE, GateInput, Verdict} from "../workflow/WorkflowTypes.sol";

/// @title  InputProvenanceWorkflow
/// @notice ERC-8301 Scenario 1, pre-action gate: a gateway answers Sanitize with the hash of the sanitized input, and only
///         once that is proven is the Infer task dispatched, over exactly that hash.
contract InputProvenanceWorkflow is StaticWorkflow {
    enum Stage {
        Sanitize,
        Infer
    }

    /// @param verifier IAgentVerifier that proves replies of both stages
    constructor(address verifier) StaticWorkflow(_table(verifier)) {}

    function _judge(GateInput memory) internal pure override returns (Verdict) {
        return Verdict.Pass; // the proof is the judgement
    }

    function _table(address verifier) private pure returns (StaticStage[] memory table) {
        table = new StaticStage[](2);
        table[uint8(Stage.Sanitize)] = StaticStage(Stages.syncStage(verifier, 7 days, 1 days, 1), 1, uint8(Stage.Infer));
        table[uint8(Stage.Infer)] = StaticStage(Stages.syncStage(verifier, 7 days, 1 days, 1), 1, FINAL_STAGE);
    }
}
