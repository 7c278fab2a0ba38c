// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Stages} from "../workflow/Stages.sol";
import {StaticStage, StaticWorkflow} from "../workflow/StaticWorkflow.sol";
import {FINAL_STAGE, GateInput, Verdict} from "../workflow/WorkflowTypes.sol";

/// @title  ParallelAuditWorkflow
/// @notice ERC-8301 Scenario 5: three audits in parallel (Gas, Security, Logic), then qualification, then settlement. Each
///         dimension takes one reply; none can be skipped. A task's lane, shown by `runState`, is its dimension.
contract ParallelAuditWorkflow is StaticWorkflow {
    enum Stage {
        Audit,
        Qualify,
        Settle
    }

    enum Dimension {
        Gas,
        Security,
        Logic
    }

    /// @param verifier IAgentVerifier that proves replies of every stage
    constructor(address verifier) StaticWorkflow(_table(verifier)) {}

    function _judge(GateInput memory) internal pure override returns (Verdict) {
        return Verdict.Pass;
    }

    function _table(address verifier) private pure returns (StaticStage[] memory table) {
        uint8 dimensions = uint8(type(Dimension).max) + 1;
        table = new StaticStage[](3);
        table[uint8(Stage.Audit)] =
            StaticStage(Stages.asyncStage(verifier, 7 days, 1), dimensions, uint8(Stage.Qualify));
        table[uint8(Stage.Qualify)] = StaticStage(Stages.syncStage(verifier, 7 days, 1 days, 1), 1, uint8(Stage.Settle));
        table[uint8(Stage.Settle)] = StaticStage(Stages.syncStage(verifier, 7 days, 1 days, 1), 1, FINAL_STAGE);
    }
}
