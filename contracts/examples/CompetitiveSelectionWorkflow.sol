// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {StageConfig} from "../interfaces/IWorkflowViews.sol";
import {AgentWorkflow} from "../workflow/AgentWorkflow.sol";
import {Stages} from "../workflow/Stages.sol";
import {BidCodec} from "../workflow/BidCodec.sol";
import {FINAL_STAGE, GateDecision, GateInput, TimeoutInput, Verdict} from "../workflow/WorkflowTypes.sol";

/// @title  CompetitiveSelectionWorkflow
/// @notice ERC-8301 Scenario 2: agents bid, the lowest price wins (ties: the earliest), the winner executes. A bid is a reply
///         whose output is `abi.encode(uint256 price, bytes payload)`; anything else, and a second bid of one replier, is
///         discarded silently. Bidding closes with the third valid bid, or by `replyTimeout` once the Bid task expired. A
///         winner who lets the Execute task expire makes way for the next best; after the last, the run fails.
/// @dev    Bids are open: the last bidder sees the others. For sealed bids see CommitRevealWorkflow.
contract CompetitiveSelectionWorkflow is AgentWorkflow {
    enum Stage {
        Bid,
        Execute
    }

    struct Bid {
        uint256 price;
        bytes32 replyHash;
        address bidder;
        bool selected;
    }

    uint256 private constant _BIDS_WANTED = 3;

    mapping(bytes32 workflowRunId => Bid[]) private _bids;
    mapping(bytes32 workflowRunId => address) private _winners;

    /// @param verifier IAgentVerifier that proves replies of both stages
    constructor(address verifier) AgentWorkflow(_table(verifier)) {}

    function _begin(bytes32, bytes32 inputHash)
        internal
        pure
        override
        returns (uint8 stage, bytes32[] memory inputHashes)
    {
        return (uint8(Stage.Bid), _repeat(inputHash, 1));
    }

    function _gate(GateInput memory input) internal override returns (GateDecision memory decision) {
        if (input.stage == uint8(Stage.Execute)) {
            (decision.verdict, decision.nextStage) = (Verdict.Pass, FINAL_STAGE);
            return decision;
        }
        (bool valid, uint256 price) = BidCodec.decode(input.reply.output);
        Bid[] storage bids = _bids[input.workflowRunId];
        for (uint256 i = 0; i < bids.length; ++i) {
            if (bids[i].bidder == input.reply.replier) valid = false;
        }
        if (!valid) return decision; // Silent
        bids.push(Bid(price, input.replyHash, input.reply.replier, false));
        return bids.length < _BIDS_WANTED ? decision : _selectBest(input.workflowRunId);
    }

    /// @dev With a bid left, the best of those executes. Without: no bid at all retries like any stage, no bid left aborts.
    function _onTimeout(TimeoutInput memory input) internal override returns (GateDecision memory decision) {
        decision = _selectBest(input.workflowRunId);
        if (decision.verdict != Verdict.Pass) {
            if (input.stage == uint8(Stage.Bid)) return super._onTimeout(input);
            decision.verdict = Verdict.Abort;
        }
    }

    /// @dev Only the selected bidder may execute.
    function _isReplier(bytes32 workflowRunId, uint8 stage, address account) internal view override returns (bool) {
        return stage != uint8(Stage.Execute) || account == _winners[workflowRunId];
    }

    function _selectBest(bytes32 workflowRunId) private returns (GateDecision memory decision) {
        Bid[] storage bids = _bids[workflowRunId];
        uint256 count = bids.length;
        uint256 best = count;
        for (uint256 i = 0; i < count; ++i) {
            if (!bids[i].selected && (best == count || bids[i].price < bids[best].price)) best = i;
        }
        if (best == count) return decision; // Silent: none left
        Bid storage winner = bids[best];
        winner.selected = true;
        _winners[workflowRunId] = winner.bidder;
        (decision.verdict, decision.nextStage) = (Verdict.Pass, uint8(Stage.Execute));
        decision.triggers = _repeat(winner.replyHash, 1);
    }

    function _table(address verifier) private pure returns (StageConfig[] memory stages) {
        stages = new StageConfig[](2);
        stages[uint8(Stage.Bid)] = Stages.asyncStage(verifier, 7 days, 1);
        stages[uint8(Stage.Execute)] = Stages.syncStage(verifier, 7 days, 1 days, 0);
    }
}
