// SPDX-License-Identifier: CC0-1.0
pragma solidity ^0.8.0;

import {RunStatus} from "./IAgentWorkflow.sol";

/// @title  IAgentWorkflowErrors
/// @notice Every refusal of `AgentWorkflow`, in the order in which the entry points check. A hash in an error is the one
///         the caller gave, so that a client can tell which element of a list was refused.
interface IAgentWorkflowErrors {
    // ── Construction ─────────────────────────────────────────────────────────

    /// @notice The stage table is empty or has more than `max` stages (255 is reserved for the final task).
    error InvalidStageCount(uint256 count, uint256 max);
    /// @notice A sync stage has no verifier, so that no reply could ever pass it.
    error SyncStageWithoutVerifier(uint8 stage);
    /// @notice A setting is given that the stage would never use: a verifier without an option, metadata without option B,
    ///         a proof window in an async stage.
    error UnusedStageSetting(uint8 stage);
    /// @notice The stage retries after a timeout but has no window, so that a retried task could never time out.
    error RetriesWithoutWindow(uint8 stage);
    /// @notice The verifier of a stage has no code.
    error VerifierWithoutCode(uint8 stage, address verifier);
    /// @notice The gate of a stage leads to completion but is not sync (ERC-8301: the final gate MUST be sync).
    error FinalGateNotSync(uint8 stage);
    /// @notice No stage has this number.
    error UnknownStage(uint8 stage);
    /// @notice A static table does not lead from stage 0 through `stage` to the end.
    error UnreachableStage(uint8 stage);
    /// @notice A static table leads from `stage` back to a stage that it has already passed.
    error StageCycle(uint8 stage, uint8 next);
    /// @notice A stage of a static table dispatches no task, or more than `max`.
    error InvalidTaskCount(uint8 stage, uint256 count, uint256 max);
    /// @notice A static stage could dispatch more than `max` tasks over the same previous replies, its retries included, so
    ///         that a timeout could be refused.
    error TooManyRetries(uint8 stage, uint256 max);
    /// @notice A static stage requires proven upstream tasks, but the stage before it takes no proofs.
    error UnprovableUpstream(uint8 stage);
    /// @notice A quorum of zero would pass without anyone.
    error ZeroQuorum();
    /// @notice A quorum is higher than the number of replies that one task can be triggered by.
    error QuorumTooHigh(uint256 quorum, uint256 max);

    // ── run ──────────────────────────────────────────────────────────────────

    /// @notice The input plaintext does not hash to `declared`.
    error InputHashMismatch(bytes32 declared, bytes32 actual);
    /// @notice `expiresAt` is 0 (no expiry) and the workflow does not allow that.
    error ExpiryRequired();
    /// @notice `expiresAt` does not lie in the future.
    error ExpiryNotInFuture(uint256 expiresAt, uint256 blockTimestamp);
    /// @notice The child dispatched no initial task.
    error NoTaskDispatched(bytes32 workflowRunId);

    // ── onAgentReply, in order ───────────────────────────────────────────────

    /// @notice `reply.replier` is not the effective sender.
    error ReplierMismatch(address replier, address sender);
    /// @notice `reply.operationId` is zero.
    error ZeroOperationId();
    /// @notice The operation is already bound to other content.
    error OperationConflict(bytes32 operationKey, bytes32 boundReplyDigest, bytes32 submittedReplyDigest);
    /// @notice `reply.prevTaskHashes` is empty.
    error EmptyPrevTaskHashes();
    /// @notice `reply.prevTaskHashes` has more than `max` entries.
    error TooManyPrevTaskHashes(uint256 count, uint256 max);
    /// @notice No task has this hash.
    error UnknownTask(bytes32 taskHash);
    /// @notice The task belongs to another run.
    error ForeignTask(bytes32 taskHash, bytes32 taskWorkflowRunId, bytes32 replyWorkflowRunId);
    /// @notice `reply.prevTaskHashes` names this task twice.
    error DuplicateTaskHash(bytes32 taskHash);
    /// @notice The run has ended.
    error RunNotPending(bytes32 workflowRunId, RunStatus status);
    /// @notice The task is completed, superseded or consumed.
    error TaskNotOpen(bytes32 taskHash);
    /// @notice The workflow does not admit this replier at this stage.
    error ReplierNotAllowed(bytes32 workflowRunId, uint8 stage, address replier);
    /// @notice `reply.timestamp` is not later than the emission of every task it answers (strict bound).
    error TimestampNotAfterTask(uint256 timestamp, uint256 anchorTime);
    /// @notice `reply.timestamp` lies in the future.
    error TimestampInFuture(uint256 timestamp, uint256 blockTimestamp);
    /// @notice The task expired before this reply came.
    error TaskExpired(bytes32 taskHash, uint256 expiresAt, uint256 blockTimestamp);
    /// @notice The output plaintext does not hash to `declared`.
    error OutputHashMismatch(bytes32 declared, bytes32 actual);
    /// @notice The stage requires proven upstream tasks and this one is not proven yet. On a sync stage: of its proof.
    error UpstreamNotProven(bytes32 taskHash);

    // ── onAgentProve, in order ───────────────────────────────────────────────

    /// @notice `replyHashes` is empty.
    error EmptyReplyHashes();
    /// @notice `replyHashes` has more than `max` entries.
    error TooManyReplyHashes(uint256 count, uint256 max);
    /// @notice No anchored reply has this hash.
    error UnknownReply(bytes32 replyHash);
    /// @notice `replyHashes` names this reply twice.
    error DuplicateReplyHash(bytes32 replyHash);
    /// @notice The replies of one proof belong to different runs.
    error MixedRuns(bytes32 replyHash, bytes32 workflowRunId, bytes32 expectedWorkflowRunId);
    /// @notice The primary tasks of the replies of one proof belong to different stages.
    error MixedStages(bytes32 replyHash, uint8 stage, uint8 expectedStage);
    // RunNotPending comes here.
    /// @notice The stage takes no proofs.
    error StageWithoutVerifier(uint8 stage);
    /// @notice The verifier did not answer "valid": it said no, reverted, or answered outside its ABI.
    error ProofRejected(bytes32 replyHash);

    // ── replyTimeout, in order (after UnknownTask, RunNotPending, TaskNotOpen) ─

    /// @notice The task has no expiry.
    error TaskDoesNotExpire(bytes32 taskHash);
    /// @notice The task's deadline has not passed: `expiresAt`, or later while a reply waits for its proof.
    error TaskNotExpired(bytes32 taskHash, uint256 deadline, uint256 blockTimestamp);

    // ── Views ────────────────────────────────────────────────────────────────

    /// @notice No run has this identifier.
    error UnknownRun(bytes32 workflowRunId);
    /// @notice The run had `max` tasks or more before this one.
    error ChainTooLong(uint256 max);

    // ── Gate decisions a child may not take ──────────────────────────────────

    /// @notice The gate named no reply, or more than `max`, as the trigger of the next task.
    error InvalidTriggerCount(uint256 count, uint256 max);
    /// @notice The gate named a trigger that is not an anchored reply of this run.
    error ForeignTrigger(bytes32 replyHash, bytes32 workflowRunId);
    /// @notice The gate named one trigger twice.
    error DuplicateTrigger(bytes32 replyHash);
    /// @notice The gate completed the run over a reply that is not proven.
    error UnprovenTrigger(bytes32 replyHash);
    /// @notice The gate asked for more than `max` parallel tasks.
    error TooManyTasks(uint256 count, uint256 max);
    /// @notice More than `max` tasks would wait for the proof of one reply.
    error TooManyWaitingTasks(bytes32 replyHash, uint256 max);
    /// @notice A timeout policy tried to complete a run; only a proof can.
    error TimeoutCannotComplete(bytes32 taskHash);
}
