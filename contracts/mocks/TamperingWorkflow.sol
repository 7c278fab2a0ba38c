// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentReply} from "../interfaces/IAgentWorkflow.sol";
import {StageConfig} from "../interfaces/IWorkflowViews.sol";
import {AgentWorkflow} from "../workflow/AgentWorkflow.sol";
import {Stages} from "../workflow/Stages.sol";
import {GateDecision, GateInput, Verdict} from "../workflow/WorkflowTypes.sol";

/// @title  TamperingWorkflow
/// @notice Test double of a workflow whose gate writes over everything that it was given before it decides. One stage of
///         three tasks: async, or sync.
contract TamperingWorkflow is AgentWorkflow {
    Verdict private _verdict;

    /// @param verifier IAgentVerifier that proves replies
    /// @param sync     Whether the gate waits for a proof
    constructor(address verifier, bool sync) AgentWorkflow(_stages(verifier, sync)) {}

    /// @notice What the gate decides from now on. Silent consumes the answered tasks; Pass leads to the same stage.
    function decide(Verdict verdict) external {
        _verdict = verdict;
    }

    function _begin(bytes32, bytes32 inputHash) internal pure override returns (uint8, bytes32[] memory) {
        return (0, _repeat(inputHash, 3));
    }

    function _gate(GateInput memory input) internal view override returns (GateDecision memory decision) {
        AgentReply memory reply = input.reply;
        for (uint256 i = 0; i < reply.prevTaskHashes.length; ++i) {
            reply.prevTaskHashes[i] = bytes32(i);
        }
        (reply.operationId, reply.outputHash, reply.workflowRunId) = (bytes32(0), bytes32(0), bytes32(0));
        (reply.replier, reply.timestamp, reply.output) = (address(0), 0, "");
        (input.workflowRunId, input.stage, input.taskHash) = (bytes32(0), 9, bytes32(0));
        (input.lane, input.tally, input.replyHash) = (9, 9, bytes32(0));
        (decision.verdict, decision.consume) = (_verdict, true);
    }

    function _stages(address verifier, bool sync) private pure returns (StageConfig[] memory stages) {
        stages = new StageConfig[](1);
        stages[0] = sync ? Stages.syncStage(verifier, 7 days, 0, 0) : Stages.asyncStage(verifier, 7 days, 0);
    }
}
