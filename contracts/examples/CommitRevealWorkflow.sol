// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Bytes} from "@openzeppelin/contracts/utils/Bytes.sol";

import {StageConfig} from "../interfaces/IStaticWorkflow.sol";
import {AgentWorkflow} from "../workflow/AgentWorkflow.sol";
import {Stages} from "../workflow/Stages.sol";
import {FINAL_STAGE, GateDecision, GateInput, MAX_TRIGGERS, TimeoutInput, Verdict} from "../workflow/WorkflowTypes.sol";

/// @title  CommitRevealWorkflow
/// @notice ERC-8301 Scenario 4: a quorum of agents commits to hidden results, reveals them, and the majority is finalized.
///         Commit: `outputHash = keccak256(result ‖ nonce)`, no output. Reveal: `output = result ‖ nonce` with
///         `nonce = 32 secret bytes ‖ 20 replier bytes`, so that nobody can reuse another's commitment. Finalize: the
///         reply's `outputHash` is the majority result's hash. Everything else is discarded silently.
/// @dev    Reveals that do not agree leave the stage open; then its timeout fails the run, as it does below the quorum.
contract CommitRevealWorkflow is AgentWorkflow {
    enum Stage {
        Commit,
        Reveal,
        Finalize
    }

    uint256 private constant _NONCE_LENGTH = 52;

    uint256 private immutable _quorum;
    mapping(bytes32 workflowRunId => mapping(address replier => bytes32 outputHash)) private _commitments;
    mapping(bytes32 workflowRunId => mapping(uint8 stage => bytes32[] replyHashes)) private _counted;
    mapping(bytes32 workflowRunId => mapping(bytes32 resultHash => uint256)) private _votes;

    /// @param verifier IAgentVerifier that proves replies of every stage
    /// @param quorum   Commits that open Reveal, and reveals that are needed to find a majority
    constructor(address verifier, uint256 quorum) AgentWorkflow(_stages(verifier)) {
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
        if (input.reply.outputHash == _inputHashOf(input.taskHash, _loadTaskHead(input.taskHash))) {
            (decision.verdict, decision.nextStage) = (Verdict.Pass, FINAL_STAGE);
        }
    }

    function _onCommit(GateInput memory input) private returns (GateDecision memory decision) {
        mapping(address => bytes32) storage commitments = _commitments[input.workflowRunId];
        if (input.reply.output.length != 0 || input.reply.outputHash == 0) return decision;
        if (commitments[input.reply.replier] != 0) return decision;
        commitments[input.reply.replier] = input.reply.outputHash;
        bytes32[] storage counted = _counted[input.workflowRunId][input.stage];
        counted.push(input.replyHash);
        if (counted.length < _quorum) return decision;
        (decision.verdict, decision.nextStage, decision.triggers) = (Verdict.Pass, uint8(Stage.Reveal), counted);
    }

    function _onReveal(GateInput memory input) private returns (GateDecision memory decision) {
        bytes memory output = input.reply.output;
        mapping(address => bytes32) storage commitments = _commitments[input.workflowRunId];
        if (output.length < _NONCE_LENGTH || commitments[input.reply.replier] != input.reply.outputHash) {
            return decision;
        }
        if (bytes20(Bytes.slice(output, output.length - 20)) != bytes20(input.reply.replier)) return decision;
        delete commitments[input.reply.replier]; // one reveal for one commitment
        bytes32 resultHash = keccak256(Bytes.slice(output, 0, output.length - _NONCE_LENGTH));
        uint256 votes = ++_votes[input.workflowRunId][resultHash];
        bytes32[] storage counted = _counted[input.workflowRunId][input.stage];
        counted.push(input.replyHash);
        if (counted.length < _quorum || votes * 2 <= counted.length) return decision;
        (decision.verdict, decision.nextStage, decision.triggers) = (Verdict.Pass, uint8(Stage.Finalize), counted);
        decision.inputHashes = _repeat(resultHash, 1);
    }

    /// @dev A reveal that is missing will not come, and one that disagrees will not change: retrying would not help.
    function _onTimeout(TimeoutInput memory input) internal override returns (GateDecision memory decision) {
        if (input.stage != uint8(Stage.Reveal)) return super._onTimeout(input);
        decision.verdict = Verdict.Abort;
    }

    function _stages(address verifier) private pure returns (StageConfig[] memory stages) {
        stages = new StageConfig[](3);
        stages[uint8(Stage.Commit)] = Stages.asyncStage(verifier, 7 days, 1);
        stages[uint8(Stage.Reveal)] = Stages.asyncStage(verifier, 7 days, 0);
        stages[uint8(Stage.Finalize)] = Stages.syncStage(verifier, 7 days, 1 days, 1);
    }
}
