// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {LowLevelCall} from "@openzeppelin/contracts/utils/LowLevelCall.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

import {AgentReply, AgentTask, IAgentWorkflow, RunStatus} from "../interfaces/IAgentWorkflow.sol";
import {IAgentVerifier} from "../interfaces/IAgentVerifier.sol";
import {IProofVerifier} from "../interfaces/IProofVerifier.sol";
import {StageConfig, StageMode, VerifierOption} from "../interfaces/IStaticWorkflow.sol";
import {IWorkflowViews} from "../interfaces/IWorkflowViews.sol";
import {WorkflowHashing} from "./WorkflowHashing.sol";
import {WorkflowQueries} from "./WorkflowQueries.sol";
import {WorkflowStages} from "./WorkflowStages.sol";
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
///         virtual. All state of the machine is private; a child's own state may be written in `_begin`, `_gate` and
///         `_onTimeout`.
///
///         One guard covers every state-changing entry point. Within one call the order is checks, effects, events; the
///         only external call of the base is the verifier's, before anything is written, because its answer decides.
///         Numbered invariants: docs/INVARIANTS.md.
///
///         Trust: `result()` says what this contract's gates allowed. Whether the gates are worth anything is for its
///         reader to judge; that every record hashes and links as claimed can be checked without trusting it.
abstract contract AgentWorkflow is WorkflowQueries, ReentrancyGuardTransient {
    using WorkflowHashing for AgentReply;

    /// @dev A reply in a batch of proofs.
    struct ProofItem {
        bytes32 replyHash;
        uint40 runIndex;
        bool wasProven; // before this call
        AgentReply reply;
        TaskHead task; // of the primary task
        bytes32 verificationDigest; // of option A, once verified
    }

    /// @dev Tasks to be dispatched together.
    struct Dispatch {
        AgentTask task; // what they share: expiresAt, prevReplyHashes; `input` goes with the first whose hash it has
        bytes32[] inputHashes; // one task for each
        bytes32[] outputHashes; // of task.prevReplyHashes
        uint8 firstLane;
        uint8 attempt;
    }

    /// @param stages Proof and time policy of each stage; a stage's number is its position
    constructor(StageConfig[] memory stages) WorkflowStages(stages) {}

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
        (workflowRunId, run_) = _openRun(_effectiveSender());
        bytes32[] memory inputHashes;
        (run_.stage, inputHashes) = _begin(workflowRunId, inputHash);
        _requireStage(run_.stage);
        if (inputHashes.length == 0) revert NoTaskDispatched(workflowRunId);

        Dispatch memory dispatch;
        dispatch.task.expiresAt = expiresAt;
        dispatch.task.input = input;
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
        if (_isBound(operationKey)) return _resolveRetry(operationKey, reply);

        // 2. prevTaskHashes. 3. Run and task eligibility. 4. Timestamp and expiry.
        Run memory run_ = _loadRun(reply.workflowRunId);
        TaskHead[] memory tasks = _checkNewReply(run_, reply);

        // 5. Bind, store, announce.
        replyHash = reply.replyHash();
        _storeReply(operationKey, replyHash, reply, tasks);
        if (_stage(run_.stage).proofWindow != 0) _flagTasks(reply.prevTaskHashes, ANSWERED);
        emit AgentReplyAnchored(reply.workflowRunId, replyHash, sender);

        // 6. Gate, in async mode.
        if (_stage(run_.stage).mode == StageMode.Async) _evaluateGate(run_, tasks[0], replyHash, reply);
    }

    /// @inheritdoc IAgentWorkflow
    /// @dev Replies that are already proven are skipped, so that proving one of a batch first cannot block the batch.
    function onAgentProve(bytes32[] calldata replyHashes, bytes calldata proof) external nonReentrant {
        // 1. Retrieve the stored replies.
        ProofItem[] memory items = _loadBatch(replyHashes);
        bytes32 workflowRunId = items[0].reply.workflowRunId;
        Run memory run_ = _loadRun(workflowRunId);
        _requirePending(workflowRunId, run_);
        uint8 stage = _checkBatchStage(items);
        StageConfig storage config = _stage(stage);
        VerifierOption option = config.option;
        if (option == VerifierOption.None) revert StageWithoutVerifier(stage);

        // 2. Ask the verifier about each. Nothing has been written yet.
        for (uint256 i = 0; i < items.length; ++i) {
            if (!items[i].wasProven) _verify(config, option, items[i], _proofFor(i, items.length, proof));
        }

        // 3. Mark and propagate all, then the gate.
        for (uint256 i = 0; i < items.length; ++i) {
            if (!items[i].wasProven) _markProven(items[i].replyHash, items[i].verificationDigest);
        }
        if (config.mode == StageMode.Async) return;
        for (uint256 i = 0; i < items.length; ++i) {
            ProofItem memory item = items[i];
            // The gate is asked only about a newly proven reply to tasks that are still open: a late proof of an earlier
            // reply must not move the current stage.
            if (item.wasProven || run_.status != RunStatus.Pending) continue;
            if (!_areOpen(run_, item.reply.prevTaskHashes)) continue;
            if (config.requireUpstreamProven) _checkUpstream(item.reply.prevTaskHashes);
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
        bytes32 workflowRunId = _runIdAt(task.runIndex);
        Run memory run_ = _loadRun(workflowRunId);
        _requirePending(workflowRunId, run_);
        _requireOpen(run_, task, taskHash);
        uint256 deadline = _deadlineOf(taskHash, task);
        if (deadline == 0) revert TaskDoesNotExpire(taskHash);
        if (block.timestamp <= deadline) revert TaskNotExpired(taskHash, deadline, block.timestamp);

        GateDecision memory decision = _onTimeout(
            TimeoutInput({
                workflowRunId: workflowRunId,
                stage: run_.stage,
                taskHash: taskHash,
                lane: task.lane,
                tally: run_.tally,
                attempt: task.attempt,
                maxRetries: _stage(run_.stage).maxRetries,
                answered: task.flags & ANSWERED != 0
            })
        );
        if (decision.verdict == Verdict.Pass && decision.nextStage == FINAL_STAGE) {
            revert TimeoutCannotComplete(taskHash);
        }
        if (decision.verdict == Verdict.Retry) {
            if (decision.triggers.length == 0) decision.triggers = _loadTask(taskHash, task).prevReplyHashes;
            ++task.attempt;
        }
        _carryOut(workflowRunId, run_, decision, _repeat(taskHash, 1), task);
    }

    // ── Required hooks ───────────────────────────────────────────────────────

    /// @dev Where a run begins. Called once by `run`, after its checks; the run has its identifier and nothing else yet.
    ///      A revert refuses the run.
    /// @param  inputHash   As given to `run`
    /// @return stage       The first stage
    /// @return inputHashes One initial task is dispatched for each entry, in order; at least one. The input plaintext is
    ///                     stored with the first task whose inputHash is the run's.
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

    // ── Checks of onAgentReply ───────────────────────────────────────────────

    /// @inheritdoc IWorkflowViews
    function checkReply(AgentReply calldata submitted) external view returns (bytes32 replyHash) {
        AgentReply memory reply = submitted;
        bytes32 operationKey = _operationKey(reply);
        if (_isBound(operationKey)) return _resolveRetry(operationKey, reply);
        _checkNewReply(_loadRun(reply.workflowRunId), reply);
        return reply.replyHash();
    }

    function _operationKey(AgentReply memory reply) private pure returns (bytes32) {
        if (reply.operationId == 0) revert ZeroOperationId();
        return WorkflowHashing.operationKey(reply.workflowRunId, reply.replier, reply.operationId);
    }

    /// @dev A bound operation: the same content returns the canonical replyHash without effect, other content is refused.
    function _resolveRetry(bytes32 operationKey, AgentReply memory reply) private view returns (bytes32 replyHash) {
        uint256 runIndex = _loadRun(reply.workflowRunId).index;
        AgentReply memory bound = _loadOperation(runIndex, reply.workflowRunId, reply.replier, reply.operationId);
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
        StageConfig storage config = _stage(run_.stage);
        if (config.mode == StageMode.Async && config.requireUpstreamProven) _checkUpstream(reply.prevTaskHashes);
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
                revert ForeignTask(taskHash, _runIdAt(tasks[i].runIndex), reply.workflowRunId);
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
            uint256 expiresAt = _expiryOf(taskHash, tasks[i]);
            if (expiresAt != 0 && block.timestamp > expiresAt) {
                revert TaskExpired(taskHash, expiresAt, block.timestamp);
            }
        }
    }

    function _checkUpstream(bytes32[] memory taskHashes) private view {
        for (uint256 i = 0; i < taskHashes.length; ++i) {
            if (_loadTaskHead(taskHashes[i]).unprovenCount != 0) revert UpstreamNotProven(taskHashes[i]);
        }
    }

    // ── Checks of onAgentProve ───────────────────────────────────────────────

    function _loadBatch(bytes32[] calldata replyHashes) private view returns (ProofItem[] memory items) {
        uint256 count = replyHashes.length;
        if (count == 0) revert EmptyReplyHashes();
        if (count > MAX_PROOF_BATCH) revert TooManyReplyHashes(count, MAX_PROOF_BATCH);
        items = new ProofItem[](count);
        for (uint256 i = 0; i < count; ++i) {
            ProofItem memory item = items[i];
            ReplyHead memory head = _requireReply(replyHashes[i]);
            item.replyHash = replyHashes[i];
            item.runIndex = head.runIndex;
            item.wasProven = head.proven;
            item.reply = _loadReply(replyHashes[i], head);
            item.task = _loadTaskHead(item.reply.prevTaskHashes[0]);
        }
        for (uint256 i = 1; i < count; ++i) {
            for (uint256 j = 0; j < i; ++j) {
                if (replyHashes[i] == replyHashes[j]) revert DuplicateReplyHash(replyHashes[i]);
            }
        }
        for (uint256 i = 1; i < count; ++i) {
            if (items[i].runIndex != items[0].runIndex) {
                revert MixedRuns(items[i].replyHash, items[i].reply.workflowRunId, items[0].reply.workflowRunId);
            }
        }
    }

    function _checkBatchStage(ProofItem[] memory items) private pure returns (uint8 stage) {
        stage = items[0].task.stage;
        for (uint256 i = 1; i < items.length; ++i) {
            if (items[i].task.stage != stage) revert MixedStages(items[i].replyHash, items[i].task.stage, stage);
        }
    }

    /// @dev Calls the stage's verifier for one reply and keeps the digest of option A. The input hash comes from the stored
    ///      task, never from the caller. Anything but a well-formed "valid" is a rejection: no code, a revert, a return
    ///      value of another length, a word that is no bool. Return data is never copied beyond two words.
    function _verify(StageConfig storage config, VerifierOption option, ProofItem memory item, bytes memory proof)
        private
    {
        AgentReply memory reply = item.reply;
        bytes32 inputHash = _inputHashOf(reply.prevTaskHashes[0], item.task);
        bool identityBound = option == VerifierOption.AgentVerifier;
        bytes memory call_;
        uint256 returnSize;
        if (identityBound) {
            call_ = abi.encodeCall(
                IAgentVerifier.verify, (_proofTaskId(reply), _proofAgentId(reply), inputHash, reply.outputHash, proof)
            );
            returnSize = 64;
        } else {
            call_ = abi.encodeCall(IProofVerifier.verify, (inputHash, reply.outputHash, config.metadata, proof));
            returnSize = 32;
        }
        (bool success, bytes32 valid, bytes32 digest) = LowLevelCall.callReturn64Bytes(config.verifier, call_);
        if (!success || LowLevelCall.returnDataSize() != returnSize || uint256(valid) != 1) {
            revert ProofRejected(item.replyHash);
        }
        if (identityBound) item.verificationDigest = digest;
    }

    // ── The machine: only what follows moves a run ───────────────────────────

    function _evaluateGate(Run memory run_, TaskHead memory task, bytes32 replyHash, AgentReply memory reply) private {
        GateDecision memory decision = _gate(
            GateInput({
                workflowRunId: reply.workflowRunId,
                stage: run_.stage,
                taskHash: reply.prevTaskHashes[0],
                lane: task.lane,
                tally: run_.tally,
                replyHash: replyHash,
                reply: reply
            })
        );
        if (decision.triggers.length == 0) {
            decision.triggers = _repeat(replyHash, 1);
        }
        _carryOut(reply.workflowRunId, run_, decision, reply.prevTaskHashes, task);
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
        if (decision.verdict == Verdict.Silent) {
            if (decision.consume) _flagTasks(taskHashes, CLOSED);
            if (decision.tally == 0) return;
            run_.tally += decision.tally;
            return _saveRun(workflowRunId, run_);
        }
        if (decision.verdict == Verdict.Abort) return _fail(workflowRunId, run_);
        bool retry = decision.verdict == Verdict.Retry;
        _checkTriggers(run_, workflowRunId, decision.triggers, retry ? 0 : 1);
        Dispatch memory dispatch;
        dispatch.task.prevReplyHashes = decision.triggers;
        if (retry) {
            run_.tally += decision.tally;
            _flagTasks(taskHashes, CLOSED);
            dispatch.inputHashes = _repeat(_inputHashOf(taskHashes[0], task), 1);
            (dispatch.firstLane, dispatch.attempt) = (task.lane, task.attempt);
        } else {
            if (decision.nextStage == FINAL_STAGE) return _complete(workflowRunId, run_, dispatch.task);
            _requireStage(decision.nextStage);
            run_.stage = decision.nextStage;
            run_.firstOpenSeq = run_.taskCount;
            run_.tally = 0;
            dispatch.inputHashes = decision.inputHashes;
        }
        uint256 window = _stage(run_.stage).window;
        if (window != 0) dispatch.task.expiresAt = block.timestamp + window;
        dispatch.outputHashes = _outputHashesOf(decision.triggers);
        if (dispatch.inputHashes.length == 0) {
            dispatch.inputHashes =
                _repeat(_inputHashFor(dispatch.outputHashes), decision.tasks == 0 ? 1 : decision.tasks);
        }
        _dispatch(workflowRunId, run_, dispatch);
    }

    /// @dev Stores the tasks, then the run, then announces the tasks.
    function _dispatch(bytes32 workflowRunId, Run memory run_, Dispatch memory dispatch) private {
        uint256 count = dispatch.inputHashes.length;
        if (count > MAX_PARALLEL_TASKS) revert TooManyTasks(count, MAX_PARALLEL_TASKS);
        AgentTask memory task = dispatch.task;
        task.stage = run_.stage;
        task.timestamp = block.timestamp;
        task.workflowRunId = workflowRunId;
        bytes memory input = task.input;
        bytes32 plaintextHash = input.length == 0 ? bytes32(0) : keccak256(input);
        bytes32[] memory taskHashes = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            bytes32 inputHash = dispatch.inputHashes[i];
            task.inputHash = inputHash;
            if (plaintextHash != 0 && inputHash == plaintextHash) {
                task.input = input;
                plaintextHash = 0;
            } else {
                task.input = "";
            }
            // A task over one reply's output needs no copy of its hash.
            bool derived = dispatch.outputHashes.length == 1 && inputHash == dispatch.outputHashes[0];
            taskHashes[i] = _createTask(run_, task, derived, dispatch.firstLane + uint8(i), dispatch.attempt);
        }
        _saveRun(workflowRunId, run_);
        for (uint256 i = 0; i < count; ++i) {
            emit NewAgentTask(workflowRunId, task.stage, taskHashes[i]);
        }
    }

    /// @dev Ends a run as Success. The final task has no input, no expiry and no NewAgentTask event (ERC-8301, Terminal
    ///      stage); its `expiresAt` and `input`, which the text leaves open, are 0 and empty.
    /// @param task Empty but for prevReplyHashes
    function _complete(bytes32 workflowRunId, Run memory run_, AgentTask memory task) private {
        if (_stage(run_.stage).mode != StageMode.Sync) revert FinalGateNotSync(run_.stage);
        task.stage = FINAL_STAGE;
        task.timestamp = block.timestamp;
        task.workflowRunId = workflowRunId;
        run_.status = RunStatus.Success;
        bytes32 finalTaskHash = _createTask(run_, task, false, 0, 0);
        _saveRun(workflowRunId, run_);
        emit WorkflowCompleted(workflowRunId, RunStatus.Success, finalTaskHash, block.timestamp);
    }

    /// @dev Ends a run as Failed.
    function _fail(bytes32 workflowRunId, Run memory run_) private {
        run_.status = RunStatus.Failed;
        _saveRun(workflowRunId, run_);
        emit WorkflowCompleted(workflowRunId, RunStatus.Failed, bytes32(0), block.timestamp);
    }

    // ── Private helpers ──────────────────────────────────────────────────────

    /// @dev The prevReplyHashes of new tasks: anchored replies of this run, each named once.
    function _checkTriggers(Run memory run_, bytes32 workflowRunId, bytes32[] memory triggers, uint256 min)
        private
        view
    {
        uint256 count = triggers.length;
        if (count < min || count > MAX_TRIGGERS) revert InvalidTriggerCount(count, MAX_TRIGGERS);
        for (uint256 i = 0; i < count; ++i) {
            if (_loadReplyHead(triggers[i]).runIndex != run_.index) {
                revert ForeignTrigger(triggers[i], workflowRunId);
            }
            for (uint256 j = 0; j < i; ++j) {
                if (triggers[i] == triggers[j]) revert DuplicateTrigger(triggers[i]);
            }
        }
    }

    function _outputHashesOf(bytes32[] memory replyHashes) private view returns (bytes32[] memory outputHashes) {
        outputHashes = new bytes32[](replyHashes.length);
        for (uint256 i = 0; i < replyHashes.length; ++i) {
            outputHashes[i] = _outputHashOf(replyHashes[i]);
        }
    }

    function _areOpen(Run memory run_, bytes32[] memory taskHashes) private view returns (bool) {
        for (uint256 i = 0; i < taskHashes.length; ++i) {
            if (!_isOpen(run_, _loadTaskHead(taskHashes[i]))) return false;
        }
        return true;
    }

    function _flagTasks(bytes32[] memory taskHashes, uint8 flag) private {
        for (uint256 i = 0; i < taskHashes.length; ++i) {
            _flagTask(taskHashes[i], flag);
        }
    }

    function _requirePending(bytes32 workflowRunId, Run memory run_) private pure {
        if (run_.status != RunStatus.Pending) revert RunNotPending(workflowRunId, run_.status);
    }

    function _requireOpen(Run memory run_, TaskHead memory task, bytes32 taskHash) private pure {
        if (!_isOpen(run_, task)) revert TaskNotOpen(taskHash);
    }

    function _repeat(bytes32 item, uint256 times) internal pure returns (bytes32[] memory list) {
        list = new bytes32[](times);
        for (uint256 i = 0; i < times; ++i) {
            list[i] = item;
        }
    }
}
