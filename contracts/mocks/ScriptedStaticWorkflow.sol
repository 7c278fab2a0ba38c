// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {StaticStage, StaticWorkflow} from "../workflow/StaticWorkflow.sol";
import {GateInput, Verdict} from "../workflow/WorkflowTypes.sol";

/// @title  ScriptedStaticWorkflow
/// @notice Test double of a static workflow: any table, and a judge that gives the verdicts that the test scripted.
contract ScriptedStaticWorkflow is StaticWorkflow {
    Verdict[] private _script;
    uint256 private _answers; // of the script, that are given

    /// @param table The stage table
    constructor(StaticStage[] memory table) StaticWorkflow(table) {}

    /// @notice The judge's next verdicts, in order, instead of those not yet given. Without one: Pass.
    function scriptVerdicts(Verdict[] calldata verdicts) external {
        (_script, _answers) = (verdicts, 0);
    }

    function _judge(GateInput memory) internal override returns (Verdict) {
        return _answers < _script.length ? _script[_answers++] : Verdict.Pass;
    }
}
