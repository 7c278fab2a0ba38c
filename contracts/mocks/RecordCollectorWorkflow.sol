// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {StageConfig} from "../interfaces/IWorkflowViews.sol";
import {AgentWorkflow} from "../workflow/AgentWorkflow.sol";
import {Stages} from "../workflow/Stages.sol";
import {FINAL_STAGE, GateDecision, GateInput, Verdict} from "../workflow/WorkflowTypes.sol";

/// @title  RecordCollectorWorkflow
/// @notice Test double of a workflow that takes each record of an outside source once: it knows a record by the id that the
///         source gave it (the first word of the output), not by its operation, its replier or the rest of its content. Two
///         records open the approval.
contract RecordCollectorWorkflow is AgentWorkflow {
    enum Stage {
        Collect,
        Approve
    }

    mapping(bytes32 workflowRunId => mapping(bytes32 recordId => bool)) private _taken;
    mapping(bytes32 workflowRunId => bytes32[] replyHashes) private _records;

    /// @param verifier IAgentVerifier that proves replies of both stages
    constructor(address verifier) AgentWorkflow(_stages(verifier)) {}

    function _begin(bytes32, bytes32 inputHash) internal pure override returns (uint8, bytes32[] memory) {
        return (uint8(Stage.Collect), _repeat(inputHash, 1));
    }

    function _gate(GateInput memory input) internal override returns (GateDecision memory decision) {
        if (input.stage == uint8(Stage.Approve)) {
            (decision.verdict, decision.nextStage) = (Verdict.Pass, FINAL_STAGE);
            return decision;
        }
        bytes32 recordId = bytes32(input.reply.output);
        if (_taken[input.workflowRunId][recordId]) return decision; // Silent
        _taken[input.workflowRunId][recordId] = true;
        bytes32[] storage records = _records[input.workflowRunId];
        records.push(input.replyHash);
        if (records.length < 2) return decision;
        (decision.verdict, decision.nextStage, decision.triggers) = (Verdict.Pass, uint8(Stage.Approve), records);
    }

    function _stages(address verifier) private pure returns (StageConfig[] memory stages) {
        stages = new StageConfig[](2);
        stages[uint8(Stage.Collect)] = Stages.asyncStage(verifier, 7 days, 1);
        stages[uint8(Stage.Approve)] = Stages.syncStage(verifier, 7 days, 1 days, 1);
    }
}
