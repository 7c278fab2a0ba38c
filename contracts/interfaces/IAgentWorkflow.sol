// SPDX-License-Identifier: CC0-1.0
pragma solidity ^0.8.0;

/// @notice State of a run (ERC-8301, Data Envelopes).
///         `Pending`: active, no result yet. `Success`: a terminal stage was reached with all gates satisfied.
///         `Failed`: aborted.
enum RunStatus {
    Pending,
    Success,
    Failed
}

/// @notice Task dispatched by the contract (ERC-8301, Data Envelopes).
/// @dev    taskHash = keccak256(abi.encode(stage, taskSeq, inputHash, timestamp, expiresAt,
///         keccak256(abi.encodePacked(prevReplyHashes)), workflowRunId)); `input` is excluded.
struct AgentTask {
    uint8 stage; // FSM stage (developer-defined enum cast to uint8)
    uint256 taskSeq; // per-run monotonic counter; starts at 0
    bytes32 inputHash; // keccak256(input)
    bytes input; // input plaintext; MAY be empty if conveyed off-chain
    uint256 timestamp; // block.timestamp at emission
    uint256 expiresAt; // Unix timestamp after which this task is no longer valid
    bytes32[] prevReplyHashes; // replies that triggered this task; empty for the initial task
    bytes32 workflowRunId; // run identifier
}

/// @notice Reply submitted by an agent (ERC-8301, Data Envelopes).
/// @dev    replyHash = keccak256(abi.encode(operationId, outputHash, timestamp, replier,
///         keccak256(abi.encodePacked(prevTaskHashes)), workflowRunId)); `output` is excluded.
struct AgentReply {
    bytes32 operationId; // opaque logical operation identifier; non-zero, stable across retries
    bytes32 outputHash; // keccak256(output)
    bytes output; // reply output plaintext; MAY be empty
    uint256 timestamp; // off-chain execution time (Unix)
    address replier; // agent address; MUST equal msg.sender when submitted
    bytes32[] prevTaskHashes; // tasks this reply responds to; MUST be non-empty
    bytes32 workflowRunId; // run identifier
}

/// @title  IAgentWorkflow
/// @notice Core interface of ERC-8301 AI Agent Execution. Interface id `0x9a50db17`.
interface IAgentWorkflow {
    // ── Events ───────────────────────────────────────────────────────────────

    /// @notice Emitted when a new task is dispatched. Full details via `getAgentTask(taskHash)`.
    event NewAgentTask(bytes32 indexed workflowRunId, uint8 indexed stage, bytes32 indexed taskHash);

    /// @notice Emitted when a reply is anchored, before gate evaluation.
    /// @dev    Fires for every profile (transparent, confidential, attested) at the same anchor point, whether the
    ///         gate later accepts the reply or silently discards it.
    event AgentReplyAnchored(bytes32 indexed workflowRunId, bytes32 indexed replyHash, address indexed replier);

    /// @notice Emitted when a run reaches a terminal state.
    event WorkflowCompleted(bytes32 indexed workflowRunId, RunStatus status, bytes32 finalTaskHash, uint256 timestamp);

    // ── Invocation ───────────────────────────────────────────────────────────

    /// @notice Start a new workflow run.
    /// @param  inputHash     keccak256 of the input
    /// @param  input         Input plaintext; MAY be empty if conveyed off-chain
    /// @param  expiresAt     Unix timestamp after which the initial task expires
    /// @return workflowRunId Contract-generated unique run identifier
    function run(bytes32 inputHash, bytes calldata input, uint256 expiresAt) external returns (bytes32 workflowRunId);

    /// @notice Query the result of a run. MUST NOT revert for an unknown run.
    /// @param  workflowRunId  Run identifier
    /// @return status         Pending | Success | Failed
    /// @return finalTaskHash  taskHash of the terminal AgentTask; bytes32(0) if not Success
    /// @return completedAt    block.timestamp at completion; 0 if not Success
    function result(bytes32 workflowRunId)
        external
        view
        returns (RunStatus status, bytes32 finalTaskHash, uint256 completedAt);

    // ── Query ────────────────────────────────────────────────────────────────

    /// @notice Returns the stored AgentTask and its proven status.
    /// @dev    MUST revert if taskHash is unknown.
    ///         proven=true iff prevReplyHashes is empty OR all prevReplyHashes are proven.
    function getAgentTask(bytes32 taskHash) external view returns (AgentTask memory task, bool proven);

    /// @notice Returns the stored AgentReply and its verification status.
    /// @dev    MUST revert if replyHash is unknown.
    function getAgentReply(bytes32 replyHash)
        external
        view
        returns (AgentReply memory reply, address verifier, bool proven, bytes32 verificationDigest);

    /// @notice Resolve a logical reply operation to its canonical replyHash.
    /// @return replyHash The first anchored replyHash; bytes32(0) if unknown
    function getReplyHashByOperation(bytes32 workflowRunId, address replier, bytes32 operationId)
        external
        view
        returns (bytes32 replyHash);

    // ── Agent Callbacks ──────────────────────────────────────────────────────

    /// @notice Agent submits a reply to a dispatched task.
    /// @param  reply     See AgentReply; reply.replier MUST equal msg.sender
    /// @return replyHash The canonical replyHash for this logical operation
    function onAgentReply(AgentReply calldata reply) external returns (bytes32 replyHash);

    /// @notice Submit a cryptographic proof covering one or more anchored replies.
    /// @param  replyHashes Each MUST have been anchored by onAgentReply
    /// @param  proof       Proof bytes covering all listed replies; encoding is verifier-specific
    function onAgentProve(bytes32[] calldata replyHashes, bytes calldata proof) external;
}
