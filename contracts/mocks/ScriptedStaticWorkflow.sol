// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {StaticStage, StaticWorkflow} from "../workflow/StaticWorkflow.sol";
import {GateInput, Verdict} from "../workflow/WorkflowTypes.sol";

/// @title  ScriptedStaticWorkflow
/// @notice Test double of a static workflow: any table, and a judge that gives the verdicts that the test scripted.
contract ScriptedStaticWorkflow is StaticWorkflow {
    Verdict[] private _script;

    /// @notice How often the judge was asked.
    uint256 public judged;

    /// @param table The stage table
    constructor(StaticStage[] memory table) StaticWorkflow(table) {}

    /// @notice The verdict on the next replies that have none yet. Without one: Pass.
    function scriptVerdicts(Verdict[] calldata verdicts) external {
        for (uint256 i = 0; i < verdicts.length; ++i) {
            _script.push(verdicts[i]);
        }
    }

    function _judge(GateInput memory) internal override returns (Verdict verdict) {
        verdict = judged < _script.length ? _script[judged] : Verdict.Pass;
        ++judged;
    }
}
