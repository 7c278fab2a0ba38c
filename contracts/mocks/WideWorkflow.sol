// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {StageConfig, StageMode} from "../interfaces/IWorkflowViews.sol";
import {Stages} from "../workflow/Stages.sol";
import {StaticStage, StaticWorkflow} from "../workflow/StaticWorkflow.sol";
import {FINAL_STAGE, GateInput, Verdict} from "../workflow/WorkflowTypes.sol";

/// @title  WideWorkflow
/// @notice Plays workflows of any width: stage 0 dispatches `firstTasks` tasks in parallel, and stage 1, which ends the run,
///         `lastTasks`. Every reply passes.
contract WideWorkflow is StaticWorkflow {
    /// @param verifier   IAgentVerifier that proves replies of both stages
    /// @param firstMode  Mode of stage 0; stage 1 is sync
    /// @param firstTasks Tasks of stage 0
    /// @param lastTasks  Tasks of stage 1
    constructor(address verifier, StageMode firstMode, uint8 firstTasks, uint8 lastTasks)
        StaticWorkflow(_table(verifier, firstMode, firstTasks, lastTasks))
    {}

    function _judge(GateInput memory) internal pure override returns (Verdict) {
        return Verdict.Pass;
    }

    function _table(address verifier, StageMode firstMode, uint8 firstTasks, uint8 lastTasks)
        private
        pure
        returns (StaticStage[] memory table)
    {
        StageConfig memory sync = Stages.syncStage(verifier, 7 days, 1 days, 1);
        table = new StaticStage[](2);
        table[0] =
            StaticStage(firstMode == StageMode.Sync ? sync : Stages.asyncStage(verifier, 7 days, 1), firstTasks, 1);
        table[1] = StaticStage(sync, lastTasks, FINAL_STAGE);
    }
}
