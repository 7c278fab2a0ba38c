// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentReply} from "../interfaces/IAgentWorkflow.sol";

/// @dev Stage of the final task; no real stage has this number (ERC-8301, Terminal stage).
uint8 constant FINAL_STAGE = type(uint8).max;
/// @dev Most tasks that one reply may answer.
uint256 constant MAX_PREV_TASKS = 8;
/// @dev Most replies that one proof may cover.
uint256 constant MAX_PROOF_BATCH = 32;
/// @dev Most replies that may trigger one task (its prevReplyHashes).
uint256 constant MAX_TRIGGERS = 64;
/// @dev Most tasks that one transition may dispatch, and so the most that can be open.
uint256 constant MAX_PARALLEL_TASKS = 64;

/// @dev Most tasks that may wait for the proof of one reply.
uint256 constant MAX_WAITING_TASKS = 256;

/// @notice What a gate decides (ERC-8301, Gate Logic and Stage Transition).
enum Verdict {
    Silent, // no action; the stage stays open
    Pass, // transition to the next stage
    Retry, // close the primary task and dispatch it anew, same stage
    Abort // end the run as Failed
}

/// @notice What a gate is asked about: one reply that has just been anchored (async) or proven (sync). Every task that it
///         answers is open and belongs to the run's current stage.
struct GateInput {
    bytes32 workflowRunId;
    uint8 stage;
    bytes32 taskHash; // primary task: reply.prevTaskHashes[0]
    uint8 lane; // its position in the parallel dispatch
    uint32 tally; // sum of what the gate has tallied since the run entered this stage
    bytes32 replyHash;
    AgentReply reply;
}

/// @notice What a timeout policy is asked about: one open task whose deadline has passed.
struct TimeoutInput {
    bytes32 workflowRunId;
    uint8 stage;
    bytes32 taskHash;
    uint8 lane;
    uint8 attempt; // how often this task has been dispatched anew after a timeout
    uint8 maxRetries; // of the stage
    bool answered; // sync stage with a proof window: it had a reply, not proven in time or not passed by the gate
}

/// @notice The answer of a gate or a timeout policy. Only the base carries it out.
struct GateDecision {
    Verdict verdict;
    uint8 nextStage; // on Pass: the next stage, or FINAL_STAGE to complete the run
    bytes32[] triggers; // on Pass and Retry: prevReplyHashes of the new tasks. Empty: the judged reply alone; on a
    // timeout's Retry, those of the expired task
    bytes32[] inputHashes; // on Pass: one task for each. Empty: `tasks` tasks with `_inputHashFor` of the triggers
    uint8 tasks; // on Pass without inputHashes: how many; 0 means 1
    uint32 tally; // on Silent and Retry: added to the stage's tally. It starts at 0 when a stage is entered
    bool consume; // on Silent: close the answered tasks (their answer is accepted, others are awaited). A gate that
    // closes the last open task without passing leaves a run that nothing can move
}
