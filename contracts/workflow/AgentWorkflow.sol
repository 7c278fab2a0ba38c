// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {LowLevelCall} from "@openzeppelin/contracts/utils/LowLevelCall.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {ERC165} from "@openzeppelin/contracts/utils/introspection/ERC165.sol";

import {AgentReply, AgentTask, IAgentWorkflow, RunStatus} from "../interfaces/IAgentWorkflow.sol";
import {IAgentVerifier} from "../interfaces/IAgentVerifier.sol";
import {IAgentWorkflowErrors} from "../interfaces/IAgentWorkflowErrors.sol";
import {IProofVerifier} from "../interfaces/IProofVerifier.sol";
import {IWorkflowViews, OpenTask, StageConfig, StageMode, VerifierOption} from "../interfaces/IWorkflowViews.sol";
import {WorkflowHashing} from "./WorkflowHashing.sol";
import {WorkflowQueries} from "./WorkflowQueries.sol";
import {StagePolicy, WorkflowStages} from "./WorkflowStages.sol";
import {ANSWERED, CLOSED, ReplyHead, Run, TaskHead, WorkflowStorage} from "./WorkflowStorage.sol";
import {
    FINAL_STAGE,
    GateDecision,
    GateInput,
    MAX_PARALLEL_TASKS,
    MAX_PREV_TASKS,
    MAX_PROOF_BATCH,
    MAX_TRIGGERS,
    TimeoutInput,
    Verdict
} from "./WorkflowTypes.sol";

/// @title  AgentWorkflow
/// @notice Base of an ERC-8301 workflow: a finite state machine that owns the life of every run. A child supplies policy
///         through hooks; it cannot drop a check, reorder one, consume a task twice, or complete a run without a proof.
///
///             run ──> tasks of the first stage
///                        │ onAgentReply           async stage: the gate is asked
///                        │ onAgentProve           sync stage: the gate is asked, once per newly proven reply
///                        │ replyTimeout           the timeout policy is asked
///                        ▼
///                     decision ── Silent ──> the stage stays open
///                        ├─────── Retry  ──> the task is closed, a new one of the same stage takes its place
///                        ├─────── Pass   ──> every task is closed, tasks of the next stage; or completion (sync gate only)
///                        └─────── Abort  ──> Failed
///
/// @dev    A child MUST implement `_begin` and `_gate`, and pass its stages to the constructor (`StaticWorkflow` does the
///         former two for a fixed path). A child MAY override `_onTimeout`, `_isReplier`, `_inputHashFor`,
///         `_allowsNoExpiry`, `_proofTaskId`, `_proofAgentId`, `_proofFor` and `_effectiveSender`. Entry points are not
///         virtual. The records and the stages are private, and no function that writes them is visible to a child; its
///         own state may be written in `_begin`, `_gate` and `_onTimeout`.
///
///         One guard covers every state-changing entry point. Within one call the order is checks, effects, events; the
///         only external call of the base is the verifier's, before anything is written, because its answer decides.
///         Numbered invariants: docs/INVARIANTS.md.
///
///         Trust: `result()` says what this contract's gates allowed. Whether the gates are worth anything is for its
///         reader to judge; that every record hashes and links as claimed can be checked without trusting it.
abstract contract AgentWorkflow is
    IAgentWorkflow,
    IWorkflowViews,
    IAgentWorkflowErrors,
    ReentrancyGuardTransient,
    ERC165
{
    using WorkflowHashing for AgentReply;
    using WorkflowQueries for WorkflowStorage.State;
    using WorkflowStorage for WorkflowStorage.State;

    /// @dev A reply in a batch of proofs.
    struct ProofItem {
        bytes32 replyHash;
        bool wasProven; // before this call
        AgentReply reply; // without its output plaintext
        TaskHead task; // of the primary task
        bytes32 verificationDigest; // of option A, once verified
    }

    /// @dev Tasks to be dispatched together.
    struct Dispatch {
        AgentTask task; // what they share: expiresAt, prevReplyHashes; `input` is the first one's
        bytes32[] inputHashes; // one task for each
        bytes32 soleOutput; // outputHash of the only previous reply; zero if there are none or several
        uint8 firstLane;
        uint8 attempt;
    }

    uint256 private immutable _stageCount;

    /// @dev Written by the constructor only, as is `_metadata`.
    mapping(uint256 stage => StagePolicy) private _stages;
    mapping(uint256 stage => bytes) private _metadata;

    WorkflowStorage.State private _store;

    /// @param stages Proof and time policy of each stage; a stage's number is its position
    constructor(StageConfig[] memory stages) {
        WorkflowStages.check(stages);
        _stageCount = stages.length;
        for (uint256 i = 0; i < stages.length; ++i) {
            StageConfig memory config = stages[i];
            _stages[i] = StagePolicy(
                config.mode,
                config.option,
                config.verifier,
                config.window,
                config.proofWindow,
                config.maxRetries,
                config.requireUpstreamProven
            );
            _metadata[i] = config.metadata;
        }
        _store.open();
    }

    // ── The life of a run ────────────────────────────────────────────────────

    /// @inheritdoc IAgentWorkflow
    function run(bytes32 inputHash, bytes calldata input, uint256 expiresAt)
        external
        nonReentrant
        returns (bytes32 workflowRunId)
    {
        if (input.length != 0) {
            bytes32 actual = keccak256(input);
            if (actual != inputHash) revert InputHashMismatch(inputHash, actual);
        }
        if (expiresAt == 0) {
            if (!_allowsNoExpiry()) revert ExpiryRequired();
        } else if (expiresAt <= block.timestamp) {
            revert ExpiryNotInFuture(expiresAt, block.timestamp);
        }

        Run memory run_;
        (workflowRunId, run_) = _store.openRun(_effectiveSender());
        bytes32[] memory inputHashes;
        (run_.stage, inputHashes) = _begin(workflowRunId, inputHash);
        if (inputHashes.length == 0) revert NoTaskDispatched(workflowRunId);

        Dispatch memory dispatch;
        dispatch.task.expiresAt = expiresAt;
        if (inputHashes[0] == inputHash) dispatch.task.input = input;
        dispatch.inputHashes = inputHashes;
        _dispatch(workflowRunId, run_, dispatch);
    }

    /// @inheritdoc IAgentWorkflow
    function onAgentReply(AgentReply calldata submitted) external nonReentrant returns (bytes32 replyHash) {
        AgentReply memory reply = submitted;

        // 1. Replier and operation identity.
        address sender = _effectiveSender();
        if (reply.replier != sender) revert ReplierMismatch(reply.replier, sender);
        bytes32 operationKey = _operationKey(reply);
        if (_store.isBound(operationKey)) return _resolveRetry(operationKey, reply);

        // 2. prevTaskHashes. 3. Run and task eligibility. 4. Timestamp and expiry.
        Run memory run_ = _store.loadRun(reply.workflowRunId);
        TaskHead[] memory tasks = _checkNewReply(run_, reply);

        // 5. Bind, store, announce.
        replyHash = reply.replyHash();
        _store.storeReply(operationKey, replyHash, reply, tasks);
        StagePolicy storage policy = _stages[run_.stage];
        if (policy.proofWindow != 0) {
            for (uint256 i = 0; i < tasks.length; ++i) {
                _store.flagTask(reply.prevTaskHashes[i], ANSWERED);
            }
        }
        emit AgentReplyAnchored(reply.workflowRunId, replyHash, sender);

        // 6. Gate, in async mode.
        if (policy.mode == StageMode.Async) _evaluateGate(run_, tasks[0], replyHash, reply);
    }

    /// @inheritdoc IAgentWorkflow
    /// @dev Replies that are already proven are skipped, so that proving one of a batch first cannot block the batch.
    function onAgentProve(bytes32[] calldata replyHashes, bytes calldata proof) external nonReentrant {
        // 1. Retrieve the stored replies.
        ProofItem[] memory items = _loadBatch(replyHashes);
        bytes32 workflowRunId = items[0].reply.workflowRunId;
        Run memory run_ = _store.loadRun(workflowRunId);
        _requirePending(workflowRunId, run_);
        StagePolicy storage policy = _stages[items[0].task.stage];
        VerifierOption option = policy.option;
        if (option == VerifierOption.None) revert StageWithoutVerifier(items[0].task.stage);

        // 2. Ask the verifier about each. Nothing has been written yet.
        for (uint256 i = 0; i < items.length; ++i) {
            ProofItem memory item = items[i];
            if (!item.wasProven) _verify(policy, option, item, _proofFor(i, items.length, proof));
        }

        // 3. Mark and propagate all, then the gate.
        for (uint256 i = 0; i < items.length; ++i) {
            ProofItem memory item = items[i];
            if (!item.wasProven) _store.markProven(item.replyHash, item.verificationDigest);
        }
        if (policy.mode == StageMode.Async) return;
        for (uint256 i = 0; i < items.length; ++i) {
            ProofItem memory item = items[i];
            // The gate is asked only about a newly proven reply to tasks that are still open: a late proof of an earlier
            // reply must not move the current stage.
            if (item.wasProven || run_.status != RunStatus.Pending) continue;
            if (!_store.areOpen(run_, item.reply.prevTaskHashes)) continue;
            if (policy.requireUpstreamProven) _checkUpstream(item.reply.prevTaskHashes);
            item.reply.output = _store.outputOf(item.replyHash);
            _evaluateGate(run_, item.task, item.replyHash, item.reply);
        }
    }

    /// @notice Time out an open task once its deadline has passed: it is dispatched anew or the run is aborted, as the
    ///         workflow's timeout policy says. Anyone may call (ERC-8301, Security Considerations, `expiresAt`).
    /// @dev    Reverts, in order, with UnknownTask, RunNotPending, TaskNotOpen, TaskDoesNotExpire, TaskNotExpired.
    /// @param  taskHash An open task. Its deadline is `expiresAt`, or `expiresAt` plus the stage's proof window once it was
    ///                  answered in a sync stage
    function replyTimeout(bytes32 taskHash) external nonReentrant {
        TaskHead memory task = _requireTask(taskHash);
        bytes32 workflowRunId = _store.runIdAt(task.runIndex);
        Run memory run_ = _store.loadRun(workflowRunId);
        _requirePending(workflowRunId, run_);
        _requireOpen(run_, task, taskHash);
        StagePolicy storage policy = _stages[run_.stage];
        (, uint256 deadline) = _store.expiryAndDeadline(taskHash, task, policy.proofWindow);
        if (deadline == 0) revert TaskDoesNotExpire(taskHash);
        if (block.timestamp <= deadline) revert TaskNotExpired(taskHash, deadline, block.timestamp);

        uint8 maxRetries = policy.maxRetries;
        GateDecision memory decision = _onTimeout(
            TimeoutInput({
                workflowRunId: workflowRunId,
                stage: run_.stage,
                taskHash: taskHash,
                lane: task.lane,
                attempt: task.attempt,
                maxRetries: maxRetries,
                answered: task.flags & ANSWERED != 0
            })
        );
        if (decision.verdict == Verdict.Pass && decision.nextStage == FINAL_STAGE) {
            revert TimeoutCannotComplete(taskHash);
        }
        if (decision.verdict == Verdict.Retry) {
            if (task.attempt >= maxRetries) return _end(workflowRunId, run_, RunStatus.Failed, 0);
            if (decision.triggers.length == 0) decision.triggers = _store.loadTask(taskHash, task).prevReplyHashes;
            ++task.attempt;
        }
        _carryOut(workflowRunId, run_, decision, _repeat(taskHash, 1), task);
    }

    // ── Views ────────────────────────────────────────────────────────────────

    /// @inheritdoc IAgentWorkflow
    function result(bytes32 workflowRunId)
        external
        view
        returns (RunStatus status, bytes32 finalTaskHash, uint256 completedAt)
    {
        Run memory run_ = _store.loadRun(workflowRunId);
        status = run_.status;
        if (status == RunStatus.Success) {
            finalTaskHash = _store.taskHashAt(run_.index, run_.taskCount - 1);
            completedAt = _store.loadTaskHead(finalTaskHash).timestamp;
        }
    }

    /// @inheritdoc IAgentWorkflow
    function getAgentTask(bytes32 taskHash) external view returns (AgentTask memory task, bool proven) {
        TaskHead memory head = _requireTask(taskHash);
        return (_store.loadTask(taskHash, head), head.unprovenCount == 0);
    }

    /// @inheritdoc IAgentWorkflow
    /// @dev `verifier` is zero until the reply is proven, then the verifier that was called: its stage's, which never
    ///      changes. `verificationDigest` is zero for option B.
    function getAgentReply(bytes32 replyHash)
        external
        view
        returns (AgentReply memory reply, address verifier, bool proven, bytes32 verificationDigest)
    {
        ReplyHead memory head = _requireReply(replyHash);
        reply = _store.loadReply(replyHash, head);
        reply.output = _store.outputOf(replyHash);
        proven = head.proven;
        if (proven) {
            verifier = _stages[_store.loadTaskHead(reply.prevTaskHashes[0]).stage].verifier;
            verificationDigest = _store.verificationDigestOf(replyHash);
        }
    }

    /// @inheritdoc IAgentWorkflow
    function getReplyHashByOperation(bytes32 workflowRunId, address replier, bytes32 operationId)
        external
        view
        returns (bytes32 replyHash)
    {
        if (!_store.isBound(WorkflowHashing.operationKey(workflowRunId, replier, operationId))) return bytes32(0);
        uint256 runIndex = _store.loadRun(workflowRunId).index;
        return _store.loadOperation(runIndex, workflowRunId, replier, operationId).replyHash();
    }

    /// @inheritdoc IWorkflowViews
    function runExists(bytes32 workflowRunId) external view returns (bool) {
        return _store.loadRun(workflowRunId).index != 0;
    }

    /// @inheritdoc IWorkflowViews
    function runState(bytes32 workflowRunId)
        external
        view
        returns (RunStatus status, uint8 stage, OpenTask[] memory openTasks)
    {
        Run memory run_ = _store.loadRun(workflowRunId);
        if (run_.index == 0) revert UnknownRun(workflowRunId);
        return (run_.status, run_.stage, _store.openTasks(run_, _stages[run_.stage].proofWindow));
    }

    /// @inheritdoc IWorkflowViews
    function checkReply(AgentReply calldata submitted) external view returns (bytes32 replyHash) {
        AgentReply memory reply = submitted;
        bytes32 operationKey = _operationKey(reply);
        if (_store.isBound(operationKey)) return _resolveRetry(operationKey, reply);
        _checkNewReply(_store.loadRun(reply.workflowRunId), reply);
        return reply.replyHash();
    }

    /// @inheritdoc IWorkflowViews
    function stageConfig(uint8 stage) external view returns (StageConfig memory config, bytes32 metadataHash) {
        config = _stageConfig(stage);
        metadataHash = keccak256(config.metadata);
    }

    /// @inheritdoc IWorkflowViews
    function replyAnchorTime(bytes32 replyHash) external view returns (uint256) {
        _requireReply(replyHash);
        return _store.anchorTimeOf(replyHash);
    }

    /// @inheritdoc IWorkflowViews
    function isChainProven(bytes32 taskHash) external view returns (bool) {
        return _store.isChainProven(_requireTask(taskHash));
    }

    /// @notice ERC-165. Supported: IERC165, IAgentWorkflow (`0x9a50db17`), IWorkflowViews.
    function supportsInterface(bytes4 interfaceId) public view virtual override returns (bool) {
        return interfaceId == type(IAgentWorkflow).interfaceId || interfaceId == type(IWorkflowViews).interfaceId
            || super.supportsInterface(interfaceId);
    }

    // ── Required hooks ───────────────────────────────────────────────────────

    /// @dev Where a run begins. Called once by `run`, after its checks; the run has its identifier and nothing else yet.
    ///      A revert refuses the run.
    /// @param  inputHash   As given to `run`
    /// @return stage       The first stage
    /// @return inputHashes One initial task is dispatched for each entry, in order; at least one. The input plaintext is
    ///                     stored with the first, if that has the run's input hash.
    function _begin(bytes32 workflowRunId, bytes32 inputHash)
        internal
        virtual
        returns (uint8 stage, bytes32[] memory inputHashes);

    /// @dev Judges one reply. Called after the reply is stored and announced (async stage), or after its proof is marked
    ///      and propagated (sync stage), while all tasks it answers are open. May write the child's own state.
    ///      A revert undoes the reply or the proof, so "no" in an open workflow should be `Silent`, not a revert.
    function _gate(GateInput memory input) internal virtual returns (GateDecision memory decision);

    // ── Optional hooks ───────────────────────────────────────────────────────

    /// @dev What happens when an open task's deadline has passed. Called by `replyTimeout` after its checks; nothing has been
    ///      written. May write the child's own state. A revert refuses the timeout and leaves the run waiting. A Pass must
    ///      name its triggers and cannot complete the run. Default: retry up to the stage's `maxRetries`, then abort.
    function _onTimeout(TimeoutInput memory input) internal virtual returns (GateDecision memory decision) {
        decision.verdict = input.attempt < input.maxRetries ? Verdict.Retry : Verdict.Abort;
    }

    /// @dev Whether `account` may reply to tasks of this stage. Asked once the tasks are known to be open, before anything
    ///      is stored. An override should narrow: `return super._isReplier(…) && …`. Default: anyone.
    function _isReplier(
        bytes32, /* workflowRunId */
        uint8, /* stage */
        address /* account */
    )
        internal
        view
        virtual
        returns (bool)
    {
        return true;
    }

    /// @dev Input hash of a task whose gate named none. Must follow from its arguments alone, so that a reader can recompute
    ///      it. Default: the output hash of a single trigger; of several, keccak256(abi.encodePacked(outputHashes)).
    /// @param outputHashes Of the replies that triggered the task, in order
    function _inputHashFor(bytes32[] memory outputHashes) internal view virtual returns (bytes32) {
        return outputHashes.length == 1 ? outputHashes[0] : WorkflowHashing.listHash(outputHashes);
    }

    /// @dev Whether `run` accepts `expiresAt == 0`, meaning "no expiry". Default: no.
    function _allowsNoExpiry() internal view virtual returns (bool) {
        return false;
    }

    /// @dev The `taskId` that option A passes to the verifier. Default: the ERC's, the run identifier. It binds a proof
    ///      neither to the task nor to the reply; a workflow that needs that overrides this.
    function _proofTaskId(AgentReply memory reply) internal view virtual returns (bytes32) {
        return reply.workflowRunId;
    }

    /// @dev The `agentId` that option A passes to the verifier. Default: the ERC's, the replier's address.
    function _proofAgentId(AgentReply memory reply) internal view virtual returns (bytes32) {
        return bytes32(uint256(uint160(reply.replier)));
    }

    /// @dev The part of `proof` that the verifier gets for the reply at `position` of `count`. Default: all of it.
    function _proofFor(
        uint256, /* position */
        uint256, /* count */
        bytes calldata proof
    )
        internal
        view
        virtual
        returns (bytes memory)
    {
        return proof;
    }

    /// @dev The account that acts: compared with the replier, scoped into operations and run identifiers, and announced.
    ///      The one place to override for ERC-2771. Default: msg.sender.
    function _effectiveSender() internal view virtual returns (address) {
        return msg.sender;
    }

    // ── For children ─────────────────────────────────────────────────────────

    /// @dev A copy of a stage's policy. Reverts with UnknownStage.
    function _stageConfig(uint8 stage) internal view returns (StageConfig memory) {
        _requireStage(stage);
        StagePolicy storage policy = _stages[stage];
        return StageConfig(
            policy.mode,
            policy.option,
            policy.verifier,
            policy.window,
            policy.proofWindow,
            policy.maxRetries,
            policy.requireUpstreamProven,
            WorkflowStorage.copy(_metadata[stage])
        );
    }

    /// @dev A list of `times` equal items, for the lists of a GateDecision.
    function _repeat(bytes32 item, uint256 times) internal pure returns (bytes32[] memory list) {
        list = new bytes32[](times);
        for (uint256 i = 0; i < times; ++i) {
            list[i] = item;
        }
    }

    // ── Checks of onAgentReply ───────────────────────────────────────────────

    function _operationKey(AgentReply memory reply) private pure returns (bytes32) {
        if (reply.operationId == 0) revert ZeroOperationId();
        return WorkflowHashing.operationKey(reply.workflowRunId, reply.replier, reply.operationId);
    }

    /// @dev A bound operation: the same content returns the canonical replyHash without effect, other content is refused.
    function _resolveRetry(bytes32 operationKey, AgentReply memory reply) private view returns (bytes32 replyHash) {
        uint256 runIndex = _store.loadRun(reply.workflowRunId).index;
        AgentReply memory bound = _store.loadOperation(runIndex, reply.workflowRunId, reply.replier, reply.operationId);
        bytes32 boundDigest = bound.replyDigest();
        bytes32 submittedDigest = reply.replyDigest();
        if (boundDigest != submittedDigest) revert OperationConflict(operationKey, boundDigest, submittedDigest);
        return bound.replyHash();
    }

    /// @dev Steps 2 to 4 of `onAgentReply`, and what this base adds to them.
    function _checkNewReply(Run memory run_, AgentReply memory reply) private view returns (TaskHead[] memory tasks) {
        tasks = _checkPrevTasks(run_, reply);
        _checkEligibility(run_, reply, tasks);
        _checkTimes(reply, tasks);
        if (reply.output.length != 0) {
            bytes32 actual = keccak256(reply.output);
            if (actual != reply.outputHash) revert OutputHashMismatch(reply.outputHash, actual);
        }
        StagePolicy storage policy = _stages[run_.stage];
        if (policy.mode == StageMode.Async && policy.requireUpstreamProven) _checkUpstream(reply.prevTaskHashes);
    }

    function _checkPrevTasks(Run memory run_, AgentReply memory reply) private view returns (TaskHead[] memory tasks) {
        uint256 count = reply.prevTaskHashes.length;
        if (count == 0) revert EmptyPrevTaskHashes();
        if (count > MAX_PREV_TASKS) revert TooManyPrevTaskHashes(count, MAX_PREV_TASKS);
        tasks = new TaskHead[](count);
        for (uint256 i = 0; i < count; ++i) {
            bytes32 taskHash = reply.prevTaskHashes[i];
            tasks[i] = _requireTask(taskHash);
            if (tasks[i].runIndex != run_.index) {
                revert ForeignTask(taskHash, _store.runIdAt(tasks[i].runIndex), reply.workflowRunId);
            }
            for (uint256 j = 0; j < i; ++j) {
                if (reply.prevTaskHashes[j] == taskHash) revert DuplicateTaskHash(taskHash);
            }
        }
    }

    function _checkEligibility(Run memory run_, AgentReply memory reply, TaskHead[] memory tasks) private view {
        _requirePending(reply.workflowRunId, run_);
        for (uint256 i = 0; i < tasks.length; ++i) {
            _requireOpen(run_, tasks[i], reply.prevTaskHashes[i]);
        }
        if (!_isReplier(reply.workflowRunId, run_.stage, reply.replier)) {
            revert ReplierNotAllowed(reply.workflowRunId, run_.stage, reply.replier);
        }
    }

    function _checkTimes(AgentReply memory reply, TaskHead[] memory tasks) private view {
        uint256 anchorTime;
        for (uint256 i = 0; i < tasks.length; ++i) {
            if (tasks[i].timestamp > anchorTime) anchorTime = tasks[i].timestamp;
        }
        if (reply.timestamp <= anchorTime) revert TimestampNotAfterTask(reply.timestamp, anchorTime);
        if (reply.timestamp > block.timestamp) revert TimestampInFuture(reply.timestamp, block.timestamp);
        for (uint256 i = 0; i < tasks.length; ++i) {
            bytes32 taskHash = reply.prevTaskHashes[i];
            uint256 expiresAt = _store.expiryOf(taskHash, tasks[i]);
            if (expiresAt != 0 && block.timestamp > expiresAt) {
                revert TaskExpired(taskHash, expiresAt, block.timestamp);
            }
        }
    }

    function _checkUpstream(bytes32[] memory taskHashes) private view {
        for (uint256 i = 0; i < taskHashes.length; ++i) {
            if (_store.loadTaskHead(taskHashes[i]).unprovenCount != 0) revert UpstreamNotProven(taskHashes[i]);
        }
    }

    // ── Checks of onAgentProve ───────────────────────────────────────────────

    /// @dev Every entry is known; then, entry by entry: named once, one run, one stage.
    function _loadBatch(bytes32[] calldata replyHashes) private view returns (ProofItem[] memory items) {
        uint256 count = replyHashes.length;
        if (count == 0) revert EmptyReplyHashes();
        if (count > MAX_PROOF_BATCH) revert TooManyReplyHashes(count, MAX_PROOF_BATCH);
        items = new ProofItem[](count);
        for (uint256 i = 0; i < count; ++i) {
            ProofItem memory item = items[i];
            item.replyHash = replyHashes[i];
            ReplyHead memory head = _requireReply(replyHashes[i]);
            item.wasProven = head.proven;
            item.reply = _store.loadReply(replyHashes[i], head);
            item.task = _store.loadTaskHead(item.reply.prevTaskHashes[0]);
        }
        bytes32 workflowRunId = items[0].reply.workflowRunId;
        uint8 stage = items[0].task.stage;
        for (uint256 i = 1; i < count; ++i) {
            ProofItem memory item = items[i];
            for (uint256 j = 0; j < i; ++j) {
                if (item.replyHash == items[j].replyHash) revert DuplicateReplyHash(item.replyHash);
            }
            if (item.reply.workflowRunId != workflowRunId) {
                revert MixedRuns(item.replyHash, item.reply.workflowRunId, workflowRunId);
            }
            if (item.task.stage != stage) revert MixedStages(item.replyHash, item.task.stage, stage);
        }
    }

    /// @dev Calls the stage's verifier for one reply and keeps the digest of option A. The input hash comes from the stored
    ///      task, never from the caller. Anything but a well-formed "valid" is a rejection: no code, a revert, a return
    ///      value of another length, a word that is no bool. Return data is never copied beyond two words.
    function _verify(StagePolicy storage policy, VerifierOption option, ProofItem memory item, bytes memory proof)
        private
    {
        AgentReply memory reply = item.reply;
        bytes32 inputHash = _store.inputHashOf(reply.prevTaskHashes[0], item.task);
        bool identityBound = option == VerifierOption.AgentVerifier;
        bytes memory call_;
        uint256 returnSize = 32;
        if (identityBound) {
            returnSize = 64;
            call_ = abi.encodeCall(
                IAgentVerifier.verify, (_proofTaskId(reply), _proofAgentId(reply), inputHash, reply.outputHash, proof)
            );
        } else {
            call_ = abi.encodeCall(
                IProofVerifier.verify,
                (inputHash, reply.outputHash, WorkflowStorage.copy(_metadata[item.task.stage]), proof)
            );
        }
        (bool success, bytes32 valid, bytes32 digest) = LowLevelCall.callReturn64Bytes(policy.verifier, call_);
        if (!success || LowLevelCall.returnDataSize() != returnSize || uint256(valid) != 1) {
            revert ProofRejected(item.replyHash);
        }
        if (identityBound) item.verificationDigest = digest;
    }

    // ── The machine: only what follows moves a run ───────────────────────────

    /// @dev Asks the gate about one reply and carries out its decision. The gate gets the reply itself, so nothing of it is
    ///      read again afterwards.
    function _evaluateGate(Run memory run_, TaskHead memory task, bytes32 replyHash, AgentReply memory reply) private {
        bytes32 workflowRunId = reply.workflowRunId;
        bytes32[] memory taskHashes = new bytes32[](reply.prevTaskHashes.length);
        for (uint256 i = 0; i < taskHashes.length; ++i) {
            taskHashes[i] = reply.prevTaskHashes[i];
        }
        GateDecision memory decision = _gate(
            GateInput({
                workflowRunId: workflowRunId,
                stage: run_.stage,
                taskHash: taskHashes[0],
                lane: task.lane,
                tally: run_.tally,
                replyHash: replyHash,
                reply: reply
            })
        );
        if (decision.triggers.length == 0) decision.triggers = _repeat(replyHash, 1);
        _carryOut(workflowRunId, run_, decision, taskHashes, task);
    }

    /// @dev Carries out a decision about open tasks.
    /// @param taskHashes The tasks that were answered, or the one that timed out
    /// @param task       The head of the first of them
    function _carryOut(
        bytes32 workflowRunId,
        Run memory run_,
        GateDecision memory decision,
        bytes32[] memory taskHashes,
        TaskHead memory task
    ) private {
        run_.tally += decision.tally;
        if (decision.verdict == Verdict.Silent) {
            for (uint256 i = 0; decision.consume && i < taskHashes.length; ++i) {
                _store.flagTask(taskHashes[i], CLOSED);
            }
            if (decision.tally == 0) return;
            return _store.saveRun(workflowRunId, run_);
        }
        if (decision.verdict == Verdict.Abort) return _end(workflowRunId, run_, RunStatus.Failed, 0);
        bytes32[] memory triggers = decision.triggers;
        Dispatch memory dispatch;
        dispatch.task.prevReplyHashes = triggers;
        bool retry = decision.verdict == Verdict.Retry;
        bool completes = !retry && decision.nextStage == FINAL_STAGE;
        _checkTriggers(run_, workflowRunId, triggers, retry, completes);
        if (completes) return _complete(workflowRunId, run_, dispatch.task);
        if (retry) {
            _store.flagTask(taskHashes[0], CLOSED);
            dispatch.inputHashes = _repeat(_store.inputHashOf(taskHashes[0], task), 1);
            dispatch.task.expiresAt = _store.expiryOf(taskHashes[0], task); // kept where the stage has no window
            (dispatch.firstLane, dispatch.attempt) = (task.lane, task.attempt);
        } else {
            run_.stage = decision.nextStage;
            run_.firstOpenSeq = run_.taskCount;
            run_.tally = 0;
            dispatch.inputHashes = decision.inputHashes;
        }
        uint256 window = _stages[run_.stage].window;
        if (window != 0) dispatch.task.expiresAt = block.timestamp + window;
        if (triggers.length == 1) dispatch.soleOutput = _store.outputHashOf(triggers[0]);
        if (dispatch.inputHashes.length == 0) {
            bytes32[] memory outputHashes = new bytes32[](triggers.length);
            for (uint256 i = 0; i < outputHashes.length; ++i) {
                outputHashes[i] = _store.outputHashOf(triggers[i]);
            }
            dispatch.inputHashes = _repeat(_inputHashFor(outputHashes), decision.tasks == 0 ? 1 : decision.tasks);
        }
        _dispatch(workflowRunId, run_, dispatch);
    }

    /// @dev Stores the tasks, then the run, then announces the tasks.
    function _dispatch(bytes32 workflowRunId, Run memory run_, Dispatch memory dispatch) private {
        _requireStage(run_.stage);
        uint256 count = dispatch.inputHashes.length;
        if (count > MAX_PARALLEL_TASKS) revert TooManyTasks(count, MAX_PARALLEL_TASKS);
        AgentTask memory task = dispatch.task;
        task.stage = run_.stage;
        task.timestamp = block.timestamp;
        task.workflowRunId = workflowRunId;
        bytes32[] memory taskHashes = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            bytes32 inputHash = task.inputHash = dispatch.inputHashes[i];
            // A task over one reply's output needs no copy of its hash.
            bool derived = inputHash != 0 && inputHash == dispatch.soleOutput;
            taskHashes[i] = _store.createTask(run_, task, derived, dispatch.firstLane + uint8(i), dispatch.attempt);
            task.input = "";
        }
        _store.saveRun(workflowRunId, run_);
        for (uint256 i = 0; i < count; ++i) {
            emit NewAgentTask(workflowRunId, task.stage, taskHashes[i]);
        }
    }

    /// @dev Ends a run as Success. The final task has no input, no expiry and no NewAgentTask event (ERC-8301, Terminal
    ///      stage); its `expiresAt` and `input`, which the text leaves open, are 0 and empty.
    /// @param task Empty but for prevReplyHashes
    function _complete(bytes32 workflowRunId, Run memory run_, AgentTask memory task) private {
        if (_stages[run_.stage].mode != StageMode.Sync) revert FinalGateNotSync(run_.stage);
        task.stage = FINAL_STAGE;
        task.timestamp = block.timestamp;
        task.workflowRunId = workflowRunId;
        _end(workflowRunId, run_, RunStatus.Success, _store.createTask(run_, task, false, 0, 0));
    }

    /// @dev Ends a run; as Failed without a final task.
    function _end(bytes32 workflowRunId, Run memory run_, RunStatus status, bytes32 finalTaskHash) private {
        run_.status = status;
        _store.saveRun(workflowRunId, run_);
        emit WorkflowCompleted(workflowRunId, status, finalTaskHash, block.timestamp);
    }

    // ── Private helpers ──────────────────────────────────────────────────────

    /// @dev The prevReplyHashes of new tasks: anchored replies of this run, each named once; of the final task: proven ones.
    function _checkTriggers(
        Run memory run_,
        bytes32 workflowRunId,
        bytes32[] memory triggers,
        bool mayBeEmpty,
        bool mustBeProven
    ) private view {
        uint256 count = triggers.length;
        if ((count == 0 && !mayBeEmpty) || count > MAX_TRIGGERS) revert InvalidTriggerCount(count, MAX_TRIGGERS);
        for (uint256 i = 0; i < count; ++i) {
            bytes32 trigger = triggers[i];
            if (_store.runIndexOf(trigger) != run_.index) revert ForeignTrigger(trigger, workflowRunId);
            if (mustBeProven && !_store.isProven(trigger)) revert UnprovenTrigger(trigger);
            for (uint256 j = 0; j < i; ++j) {
                if (trigger == triggers[j]) revert DuplicateTrigger(trigger);
            }
        }
    }

    function _requirePending(bytes32 workflowRunId, Run memory run_) private pure {
        if (run_.status != RunStatus.Pending) revert RunNotPending(workflowRunId, run_.status);
    }

    function _requireOpen(Run memory run_, TaskHead memory task, bytes32 taskHash) private pure {
        if (!WorkflowStorage.isOpen(run_, task)) revert TaskNotOpen(taskHash);
    }

    function _requireTask(bytes32 taskHash) private view returns (TaskHead memory head) {
        head = _store.loadTaskHead(taskHash);
        if (head.timestamp == 0) revert UnknownTask(taskHash);
    }

    function _requireReply(bytes32 replyHash) private view returns (ReplyHead memory head) {
        head = _store.loadReplyHead(replyHash);
        if (head.replier == address(0)) revert UnknownReply(replyHash);
    }

    function _requireStage(uint8 stage) private view {
        if (stage >= _stageCount) revert UnknownStage(stage);
    }
}
