// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentReply, RunStatus} from "../../contracts/interfaces/IAgentWorkflow.sol";

/// @notice The workflows that are driven, by their place in `WorkflowHandler.workflows`.
enum Kind {
    Pipeline,
    Audit,
    Selection,
    CommitReveal
}

/// @notice What is driven. Each may succeed, be refused, or find nothing to work on.
enum Action {
    Start,
    Reply,
    ReplyToSeveral,
    ReplyBadly,
    Retry,
    Conflict,
    Prove,
    ProveWrongly,
    ProveBatch,
    Timeout,
    Warp,
    Advance
}

/// @notice A run as the handler saw it: from its own calls, the events and the clock, never from a view.
struct GhostRun {
    Kind kind;
    bytes32 id;
    bytes32 inputHash;
    uint8 stage; // of the last task announced
    uint256 announced; // NewAgentTask events
    uint256 completions; // WorkflowCompleted events
    RunStatus status; // as the last of them said
    bytes32 finalTaskHash;
    uint256 completedAt;
    bool completedByProof;
    bytes32 seal; // of everything that can be read about the run, taken when it ended
}

/// @notice A task as the handler saw it announced.
struct GhostTask {
    uint256 index; // in the list of all tasks
    uint256 run;
    bytes32 hash;
    uint8 stage;
    uint256 lane;
    uint256 dispatchedAt;
    uint256 expiresAt; // by the rule: the caller's for initial tasks, seven days otherwise
    bool initial; // no previous reply: dispatched by run(), or by the timeout of such a task
    bool wasClosed; // seen to be no longer open
}

/// @notice A reply as the handler submitted it and saw it anchored.
struct GhostReply {
    uint256 run;
    uint256 task; // the primary one
    bytes32 hash;
    AgentReply reply;
    uint256 anchoredAt;
    bool proven; // a call with a right proof for it went through
}
