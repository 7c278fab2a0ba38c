// SPDX-License-Identifier: CC0-1.0
pragma solidity ^0.8.0;

import {AgentReply, RunStatus} from "./IAgentWorkflow.sol";

/// @notice When a stage's gate is evaluated (ERC-8301, Gate Logic and Stage Transition).
enum StageMode {
    Async, // right after onAgentReply
    Sync // only after onAgentProve
}

/// @notice Which ERC-8274 verifier a stage calls (ERC-8301, onAgentProve).
enum VerifierOption {
    None, // the stage takes no proofs
    AgentVerifier, // option A, bound to the replier's identity
    ProofVerifier // option B, stateless
}

/// @notice Proof policy and time policy of one stage; fixed at deployment.
struct StageConfig {
    StageMode mode;
    VerifierOption option;
    address verifier; // zero exactly when option is None
    uint32 window; // seconds that a task of this stage stays open; 0 = no expiry. Initial tasks take run()'s expiresAt
    uint32 proofWindow; // sync only: seconds after expiresAt that an answered task still waits for its proof
    uint8 maxRetries; // how often a task is dispatched anew after a timeout, before the run is aborted
    bool requireUpstreamProven; // a reply (async) or its proof (sync) is refused while a task it answers is not proven
    bytes metadata; // option B only: circuit key, enclave hash, etc.
}

/// @notice A task that is neither answered for good nor closed: open until the gate or a timeout decides.
struct OpenTask {
    bytes32 taskHash;
    uint256 taskSeq;
    uint256 lane; // position in the parallel dispatch; a retried task keeps it
    uint256 expiresAt; // last moment for a new reply; 0 = none
    uint256 deadline; // `replyTimeout` is possible after it; 0 = never
}

/// @title  IWorkflowViews
/// @notice What users of ERC-8301 ask for beyond its interface: does a run exist, where does it stand, what is owed until
///         when, would this reply be accepted. Views only; every returned array is bounded.
interface IWorkflowViews {
    /// @notice Whether `run` has returned this identifier. `result` alone cannot tell a pending run from an unknown one.
    function runExists(bytes32 workflowRunId) external view returns (bool);

    /// @notice Where a run stands. Reverts with UnknownRun.
    /// @return status    Pending | Success | Failed
    /// @return stage     Current stage; after the end of the run, the stage in which it ended
    /// @return openTasks Tasks that are open now, in order of dispatch; empty once the run has ended
    function runState(bytes32 workflowRunId)
        external
        view
        returns (RunStatus status, uint8 stage, OpenTask[] memory openTasks);

    /// @notice Whether `onAgentReply` would accept this reply from `reply.replier` now, the gate's own judgement left out.
    ///         Reverts with the custom error with which `onAgentReply` would.
    /// @return replyHash The canonical replyHash: of the new reply, or of the operation that a matching retry resolves to
    function checkReply(AgentReply calldata reply) external view returns (bytes32 replyHash);

    /// @notice Proof and time policy of a stage; it never changes. Reverts with UnknownStage.
    /// @return config       The stage's policy
    /// @return metadataHash keccak256 of `config.metadata`
    function stageConfig(uint8 stage) external view returns (StageConfig memory config, bytes32 metadataHash);

    /// @notice block.timestamp at which a reply was anchored. Reverts with UnknownReply.
    function replyAnchorTime(bytes32 replyHash) external view returns (uint256);

    /// @notice Whether every reply upstream of a task, back to the initial task, is proven: stronger than
    ///         `getAgentTask(taskHash).proven`, which speaks of the task's own prevReplyHashes only. Reverts with UnknownTask,
    ///         and with ChainTooLong if the run had 1,024 tasks before it (then walk off chain).
    function isChainProven(bytes32 taskHash) external view returns (bool);
}
