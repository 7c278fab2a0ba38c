// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Bytes} from "@openzeppelin/contracts/utils/Bytes.sol";
import {StageConfig} from "../interfaces/IWorkflowViews.sol";
import {AgentWorkflow} from "../workflow/AgentWorkflow.sol";
import {Stages} from "../workflow/Stages.sol";
import {FINAL_STAGE, GateDecision, GateInput, MAX_TRIGGERS, Verdict} from "../workflow/WorkflowTypes.sol";

/// @title  CommitRevealWorkflow
/// @notice ERC-8301 Scenario 4: a quorum of agents commits to hidden results, all reveal, the majority is finalized.
///         Commit: `outputHash = keccak256(result ‖ nonce)`, no output. Reveal: `output = result ‖ nonce` with
///         `nonce = 32 secret bytes ‖ 20 replier bytes`, so that nobody can reuse another's commitment. Finalize: the
///         reply's `outputHash` is the majority result's hash. Everything else is discarded silently.
/// @dev    Without a strict majority, or with a reveal missing, Reveal stays open until its timeout fails the run.
contract CommitRevealWorkflow is AgentWorkflow {
    enum Stage {
        Commit,
        Reveal,
        Finalize
    }

    struct Round {
        mapping(address replier => bytes32 outputHash) commitments;
        mapping(uint256 position => bytes32 replyHash) counted; // in the current stage
        mapping(bytes32 resultHash => uint256) votes;
        bytes32 leader; // the result with most votes so far
    }

    uint256 private immutable _quorum;
    mapping(bytes32 workflowRunId => Round) private _rounds;

    /// @param verifier IAgentVerifier that proves replies of every stage
    /// @param quorum   Commits that open Reveal, and reveals that are needed to find a majority
    constructor(address verifier, uint256 quorum) AgentWorkflow(_table(verifier)) {
        if (quorum == 0) revert ZeroQuorum();
        if (quorum > MAX_TRIGGERS) revert QuorumTooHigh(quorum, MAX_TRIGGERS);
        _quorum = quorum;
    }

    function _begin(bytes32, bytes32 inputHash) internal pure override returns (uint8, bytes32[] memory) {
        return (uint8(Stage.Commit), _repeat(inputHash, 1));
    }

    function _gate(GateInput memory input) internal override returns (GateDecision memory decision) {
        if (input.stage == uint8(Stage.Commit)) return _onCommit(input);
        if (input.stage == uint8(Stage.Reveal)) return _onReveal(input);
        if (input.reply.outputHash == _rounds[input.workflowRunId].leader) {
            (decision.verdict, decision.nextStage) = (Verdict.Pass, FINAL_STAGE);
        }
    }

    function _onCommit(GateInput memory input) private returns (GateDecision memory decision) {
        (address replier, bytes32 outputHash) = (input.reply.replier, input.reply.outputHash);
        Round storage round = _rounds[input.workflowRunId];
        if (input.reply.output.length != 0 || outputHash == 0 || round.commitments[replier] != 0) return decision;
        round.commitments[replier] = outputHash;
        return _count(round, input, Stage.Reveal);
    }

    function _onReveal(GateInput memory input) private returns (GateDecision memory decision) {
        (bytes memory output, address replier) = (input.reply.output, input.reply.replier);
        Round storage round = _rounds[input.workflowRunId];
        if (output.length < 52 || round.commitments[replier] != input.reply.outputHash) return decision;
        if (bytes20(Bytes.slice(output, output.length - 20)) != bytes20(replier)) return decision;
        delete round.commitments[replier]; // one reveal for one commitment
        bytes32 resultHash = keccak256(Bytes.slice(output, 0, output.length - 52));
        if (++round.votes[resultHash] > round.votes[round.leader]) round.leader = resultHash;
        decision = _count(round, input, Stage.Finalize);
        decision.inputHashes = _repeat(round.leader, 1);
        if (round.votes[round.leader] * 2 <= _quorum) decision.verdict = Verdict.Silent;
    }

    /// @dev Keeps a reply that counts. The one that fills the quorum passes, with all of them as triggers.
    function _count(Round storage round, GateInput memory input, Stage next) private returns (GateDecision memory d) {
        round.counted[input.tally] = input.replyHash;
        d.tally = 1;
        uint256 count = uint256(input.tally) + 1;
        if (count < _quorum) return d;
        (d.verdict, d.nextStage, d.triggers) = (Verdict.Pass, uint8(next), new bytes32[](count));
        for (uint256 i = 0; i < count; ++i) {
            d.triggers[i] = round.counted[i];
        }
    }

    function _table(address verifier) private pure returns (StageConfig[] memory stages) {
        stages = new StageConfig[](3);
        stages[uint8(Stage.Commit)] = Stages.asyncStage(verifier, 7 days, 1);
        // No retry: a reveal that is missing will not come, and one that disagrees will not change.
        stages[uint8(Stage.Reveal)] = Stages.asyncStage(verifier, 7 days, 0);
        stages[uint8(Stage.Finalize)] = Stages.syncStage(verifier, 7 days, 1 days, 1);
    }
}
