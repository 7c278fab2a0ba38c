// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {IStaticWorkflow} from "../interfaces/IStaticWorkflow.sol";
import {StageConfig, StageMode, VerifierOption} from "../interfaces/IWorkflowViews.sol";
import {AgentWorkflow} from "./AgentWorkflow.sol";
import {
    FINAL_STAGE,
    GateDecision,
    GateInput,
    MAX_PARALLEL_TASKS,
    MAX_WAITING_TASKS,
    TimeoutInput,
    Verdict
} from "./WorkflowTypes.sol";

/// @notice One stage of a static workflow.
struct StaticStage {
    StageConfig config;
    uint8 tasks; // dispatched in parallel when the stage is entered; each must get a reply that passes
    uint8 next; // the stage that follows, or FINAL_STAGE
}

/// @title  StaticWorkflow
/// @notice An ERC-8301 workflow whose path is fixed at deployment and published on chain (ERC-8301, Static vs Dynamic FSM):
///         it begins at stage 0, dispatches every task of every stage, and each stage has exactly one successor. The gate
///         judges replies; it cannot choose where to go. Timeouts retry or abort; they never skip.
/// @dev    A child passes the stage table to the constructor and MUST implement `_judge`. A stage of several tasks passes
///         once every task has a reply that `_judge` passed; the first such reply consumes its task. There, a reply that
///         answers several tasks at once is discarded silently: one answer may not stand in for another.
abstract contract StaticWorkflow is AgentWorkflow, IStaticWorkflow {
    /// @dev One slot.
    struct Edge {
        uint8 tasks; // of this stage
        uint8 next;
        uint8 nextTasks; // of the next stage
    }

    uint256 private immutable _stageTotal;
    uint256 private immutable _initialTasks;

    /// @dev Written by the constructor only.
    mapping(uint256 stage => Edge) private _edges;

    /// @dev Replies that passed in a stage of several tasks, in the order in which they did; the stage's last is not kept.
    mapping(bytes32 workflowRunId => mapping(uint256 stage => mapping(uint256 position => bytes32))) private _passed;

    /// @param table The stages; a stage's number is its position. Following `next` from stage 0 must pass every stage once
    ///              and end at FINAL_STAGE, from a sync stage.
    constructor(StaticStage[] memory table) AgentWorkflow(_configs(table)) {
        bool[] memory reached = new bool[](table.length);
        uint8 stage = 0;
        while (stage != FINAL_STAGE) {
            reached[stage] = true;
            (uint8 next, uint8 tasks) = (table[stage].next, table[stage].tasks);
            if (tasks == 0 || tasks > MAX_PARALLEL_TASKS) revert InvalidTaskCount(stage, tasks, MAX_PARALLEL_TASKS);
            if (uint256(tasks) * (uint256(table[stage].config.maxRetries) + 1) > MAX_WAITING_TASKS) {
                revert TooManyRetries(stage, MAX_WAITING_TASKS);
            }
            if (next == FINAL_STAGE) {
                if (table[stage].config.mode != StageMode.Sync) revert FinalGateNotSync(stage);
            } else {
                if (next >= table.length) revert UnknownStage(next);
                if (reached[next]) revert StageCycle(stage, next);
                bool unprovable = table[stage].config.option == VerifierOption.None;
                if (unprovable && table[next].config.requireUpstreamProven) revert UnprovableUpstream(next);
            }
            _edges[stage] = Edge(tasks, next, next == FINAL_STAGE ? 0 : table[next].tasks);
            stage = next;
        }
        for (uint256 i = 0; i < table.length; ++i) {
            if (!reached[i]) revert UnreachableStage(uint8(i));
        }
        _stageTotal = table.length;
        _initialTasks = table[0].tasks;
    }

    /// @inheritdoc IStaticWorkflow
    function stageCount() external view returns (uint256) {
        return _stageTotal;
    }

    /// @inheritdoc IStaticWorkflow
    function stageAt(uint8 stage)
        external
        view
        returns (StageMode mode, address verifier, uint256 window, uint256 tasks, uint8[] memory next)
    {
        StageConfig memory config = _stageConfig(stage);
        (mode, verifier, window) = (config.mode, config.verifier, config.window);
        Edge storage edge = _edges[stage];
        tasks = edge.tasks;
        next = new uint8[](1);
        next[0] = edge.next;
    }

    /// @notice ERC-165. Adds IStaticWorkflow.
    function supportsInterface(bytes4 interfaceId) public view virtual override returns (bool) {
        return interfaceId == type(IStaticWorkflow).interfaceId || super.supportsInterface(interfaceId);
    }

    /// @dev Judges one reply: Pass, Retry, Abort or Silent. When it is called and what a revert means: see
    ///      `AgentWorkflow._gate`.
    function _judge(GateInput memory input) internal virtual returns (Verdict);

    /// @inheritdoc AgentWorkflow
    function _begin(bytes32, bytes32 inputHash)
        internal
        view
        override
        returns (uint8 stage, bytes32[] memory inputHashes)
    {
        return (0, _repeat(inputHash, _initialTasks));
    }

    /// @inheritdoc AgentWorkflow
    function _gate(GateInput memory input) internal override returns (GateDecision memory decision) {
        Edge memory edge = _edges[input.stage];
        if (edge.tasks > 1 && input.reply.prevTaskHashes.length > 1) return decision; // Silent
        decision.verdict = _judge(input);
        if (decision.verdict != Verdict.Pass) return decision;
        decision.nextStage = edge.next;
        if (edge.tasks > 1) _join(input, decision, edge.tasks);
        decision.tasks = edge.nextTasks;
    }

    /// @inheritdoc AgentWorkflow
    function _onTimeout(TimeoutInput memory input) internal override returns (GateDecision memory) {
        return super._onTimeout(input);
    }

    /// @dev Turns the pass of one reply into the consumption of its task, until every task of the stage has one.
    function _join(GateInput memory input, GateDecision memory decision, uint256 tasks) private {
        mapping(uint256 => bytes32) storage passed = _passed[input.workflowRunId][input.stage];
        if (input.tally + 1 < tasks) {
            passed[input.tally] = input.replyHash;
            decision.verdict = Verdict.Silent;
            decision.consume = true;
            decision.tally = 1;
        } else {
            decision.triggers = new bytes32[](tasks);
            for (uint256 i = 0; i + 1 < tasks; ++i) {
                decision.triggers[i] = passed[i];
            }
            decision.triggers[tasks - 1] = input.replyHash;
        }
    }

    function _configs(StaticStage[] memory table) private pure returns (StageConfig[] memory configs) {
        configs = new StageConfig[](table.length);
        for (uint256 i = 0; i < table.length; ++i) {
            configs[i] = table[i].config;
        }
    }
}
