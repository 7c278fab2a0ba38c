// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {LowLevelCall} from "@openzeppelin/contracts/utils/LowLevelCall.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {ERC165} from "@openzeppelin/contracts/utils/introspection/ERC165.sol";

import {AgentReply, AgentTask, IAgentWorkflow, RunStatus} from "../interfaces/IAgentWorkflow.sol";
import {IAgentVerifier} from "../interfaces/IAgentVerifier.sol";
import {IAgentWorkflowErrors} from "../interfaces/IAgentWorkflowErrors.sol";
import {IProofVerifier} from "../interfaces/IProofVerifier.sol";
import {WorkflowHashing} from "./WorkflowHashing.sol";
import {MAX_PREV_TASKS, WorkflowStorage} from "./WorkflowStorage.sol";
import {
    FINAL_STAGE,
    GateDecision,
    GateInput,
    StageConfig,
    StageMode,
    Verdict,
    VerifierOption
} from "./WorkflowTypes.sol";

/// @title  AgentWorkflow
/// @notice Base of an ERC-8301 workflow: a finite state machine that owns the life of every run. A child supplies policy
///         through hooks; it cannot drop a check, reorder one, consume a task twice, or complete a run without a proof.
///
///             run ──> tasks of the first stage
///                        │ onAgentReply           async stage: the gate is asked
///                        │ onAgentProve           sync stage: the gate is asked, once per newly proven reply
///                        ▼
///                      gate ── Silent ──> nothing; the stage stays open
///                        ├──── Retry  ──> the answered tasks are closed, one new task of the same stage
///                        ├──── Pass   ──> every task is closed, tasks of the next stage; or completion (sync only)
///                        └──── Abort  ──> Failed
///
/// @dev    A child MUST implement `_begin` and `_gate`, and pass its stage table to the constructor (`StaticWorkflow`
///         does the former two for a fixed path). A child MAY override `_isReplier`, `_allowsNoExpiry`, `_proofTaskId`,
///         `_proofAgentId`, `_proofFor` and `_effectiveSender`. Entry points are not virtual. All state of the machine is
///         private; a child's own state may be written in `_begin` and `_gate` only.
///
///         One guard covers every state-changing entry point. Within one call the order is checks, effects, events; the
///         only external call of the base is the verifier's, before anything is written (its answer decides).
///         Numbered invariants: docs/INVARIANTS.md.
///
///         Trust: `result()` says what this contract's gates allowed. Whether the gates are worth anything is for its
///         reader to judge; that every record hashes and links as claimed can be checked without trusting it.
abstract contract AgentWorkflow is
    IAgentWorkflow,
    IAgentWorkflowErrors,
    WorkflowStorage,
    ReentrancyGuardTransient,
    ERC165
{
    using WorkflowHashing for AgentReply;

    /// @dev A reply in a batch of proofs, as loaded by `_checkBatch`.
    struct ProofItem {
        bytes32 replyHash;
        uint40 runIndex;
        bool wasProven; // before this call
        AgentReply reply;
        TaskHead task; // of the primary task
        bytes32 verificationDigest; // of option A, once verified
    }

    /// @dev Most replies that one proof may cover.
    uint256 internal constant MAX_PROOF_BATCH = 32;
    /// @dev Most replies that may trigger one task (its prevReplyHashes).
    uint256 internal constant MAX_TRIGGERS = 64;
    /// @dev Most tasks that one transition may dispatch.
    uint256 internal constant MAX_PARALLEL_TASKS = 64;

    uint256 private immutable _stageCount;

    /// @dev Written by the constructor only.
    mapping(uint256 stage => StageConfig) private _stages;

    // ── Construction ─────────────────────────────────────────────────────────

    /// @param stages Proof and time policy of each stage; a stage's number is its position
    constructor(StageConfig[] memory stages) {
        if (stages.length == 0 || stages.length > FINAL_STAGE) {
            revert InvalidStageCount(stages.length, FINAL_STAGE);
        }
        _stageCount = stages.length;
        for (uint256 i = 0; i < stages.length; ++i) {
            StageConfig memory config = stages[i];
            if (config.option == VerifierOption.None) {
                if (config.mode == StageMode.Sync) revert SyncStageWithoutVerifier(uint8(i));
                if (config.verifier != address(0)) revert UnusedVerifierSetting(uint8(i));
            } else if (config.verifier.code.length == 0) {
                revert VerifierWithoutCode(uint8(i), config.verifier);
            }
            if (config.option != VerifierOption.ProofVerifier && config.metadata.length != 0) {
                revert UnusedVerifierSetting(uint8(i));
            }
            _stages[i] = config;
        }
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
        (workflowRunId, run_) = _openRun(_effectiveSender());
        bytes32[] memory inputHashes;
        (run_.stage, inputHashes) = _begin(workflowRunId, inputHash);
        _requireStage(run_.stage);
        if (inputHashes.length == 0) revert NoTaskDispatched(workflowRunId);

        AgentTask memory task;
        task.stage = run_.stage;
        task.expiresAt = expiresAt;
        _dispatch(workflowRunId, run_, task, inputHashes, input);
    }

    /// @inheritdoc IAgentWorkflow
    function onAgentReply(AgentReply calldata submitted) external nonReentrant returns (bytes32 replyHash) {
        AgentReply memory reply = submitted;

        // 1. Replier and operation identity.
        address sender = _effectiveSender();
        if (reply.replier != sender) revert ReplierMismatch(reply.replier, sender);
        if (reply.operationId == 0) revert ZeroOperationId();
        bytes32 operationKey = WorkflowHashing.operationKey(reply.workflowRunId, sender, reply.operationId);
        if (_isBound(operationKey)) return _resolveRetry(operationKey, reply);

        // 2. prevTaskHashes. 3. Run and task eligibility. 4. Timestamp and expiry.
        Run memory run_ = _loadRun(reply.workflowRunId);
        TaskHead[] memory tasks = _checkPrevTasks(run_, reply);
        _checkEligibility(run_, reply, tasks);
        _checkTimes(reply, tasks);
        if (reply.output.length != 0) {
            bytes32 actual = keccak256(reply.output);
            if (actual != reply.outputHash) revert OutputHashMismatch(reply.outputHash, actual);
        }

        // 5. Bind, store, announce.
        replyHash = reply.replyHash();
        _storeReply(operationKey, replyHash, reply, tasks);
        emit AgentReplyAnchored(reply.workflowRunId, replyHash, sender);

        // 6. Gate, in async mode.
        if (_stages[run_.stage].mode == StageMode.Async) _evaluateGate(run_, tasks[0].seq, replyHash, reply);
    }

    /// @inheritdoc IAgentWorkflow
    /// @dev Replies that are already proven are skipped, so that proving one of a batch first cannot block the batch.
    function onAgentProve(bytes32[] calldata replyHashes, bytes calldata proof) external nonReentrant {
        // 1. Retrieve the stored replies.
        ProofItem[] memory items = _loadBatch(replyHashes);
        bytes32 workflowRunId = items[0].reply.workflowRunId;
        Run memory run_ = _loadRun(workflowRunId);
        if (run_.status != RunStatus.Pending) revert RunNotPending(workflowRunId, run_.status);
        StageConfig storage config = _stages[_checkBatchStage(items)];

        // 2. Ask the verifier about each. Nothing has been written yet.
        for (uint256 i = 0; i < items.length; ++i) {
            if (!items[i].wasProven) _verify(config, items[i], _proofFor(i, items.length, proof));
        }

        // 3. Mark and propagate all, then the gate.
        for (uint256 i = 0; i < items.length; ++i) {
            ProofItem memory item = items[i];
            if (!item.wasProven) _markProven(item.replyHash, item.verificationDigest);
        }
        if (config.mode == StageMode.Async) return;
        for (uint256 i = 0; i < items.length; ++i) {
            ProofItem memory item = items[i];
            // The gate is asked only about a newly proven reply to tasks that are still open: a late proof of an earlier
            // reply must not move the current stage.
            if (item.wasProven || run_.status != RunStatus.Pending) continue;
            if (_firstClosedTask(run_, item.reply.prevTaskHashes) != 0) continue;
            _evaluateGate(run_, item.task.seq, item.replyHash, item.reply);
        }
    }

    // ── Views ────────────────────────────────────────────────────────────────

    /// @inheritdoc IAgentWorkflow
    function result(bytes32 workflowRunId)
        external
        view
        returns (RunStatus status, bytes32 finalTaskHash, uint256 completedAt)
    {
        Run memory run_ = _loadRun(workflowRunId);
        status = run_.status;
        if (status == RunStatus.Success) {
            finalTaskHash = _taskHashAt(run_, run_.taskCount - 1);
            completedAt = _loadTaskHead(finalTaskHash).timestamp;
        }
    }

    /// @inheritdoc IAgentWorkflow
    function getAgentTask(bytes32 taskHash) external view returns (AgentTask memory task, bool proven) {
        TaskHead memory head = _requireTask(taskHash);
        return (_loadTask(taskHash, head), head.unprovenCount == 0);
    }

    /// @inheritdoc IAgentWorkflow
    /// @dev `verifier` is zero until the reply is proven, then the verifier that was called.
    function getAgentReply(bytes32 replyHash)
        external
        view
        returns (AgentReply memory reply, address verifier, bool proven, bytes32 verificationDigest)
    {
        ReplyHead memory head = _requireReply(replyHash);
        reply = _loadReply(replyHash, head);
        proven = head.proven;
        if (proven) {
            // A stage's verifier never changes, so it is the one that was called.
            verifier = _stages[_loadTaskHead(reply.prevTaskHashes[0]).stage].verifier;
            verificationDigest = _verificationDigestOf(replyHash);
        }
    }

    /// @inheritdoc IAgentWorkflow
    function getReplyHashByOperation(bytes32 workflowRunId, address replier, bytes32 operationId)
        external
        view
        returns (bytes32 replyHash)
    {
        if (!_isBound(WorkflowHashing.operationKey(workflowRunId, replier, operationId))) return bytes32(0);
        return _loadOperation(workflowRunId, replier, operationId).replyHash();
    }

    /// @notice Proof and time policy of a stage; it never changes.
    /// @param  stage        Stage number, below the number of stages
    /// @return config       The stage's policy
    /// @return metadataHash keccak256 of `config.metadata`
    function stageConfig(uint8 stage) external view returns (StageConfig memory config, bytes32 metadataHash) {
        _requireStage(stage);
        config = _stages[stage];
        metadataHash = keccak256(config.metadata);
    }

    /// @inheritdoc ERC165
    function supportsInterface(bytes4 interfaceId) public view virtual override returns (bool) {
        return interfaceId == type(IAgentWorkflow).interfaceId || super.supportsInterface(interfaceId);
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
    ///      and propagated (sync stage), while all tasks it answers are open. May write the child's own state (tallies).
    ///      A revert undoes the reply or the proof, so "no" in an open workflow should be `Silent`, not a revert.
    function _gate(GateInput memory input) internal virtual returns (GateDecision memory decision);

    // ── Optional hooks ───────────────────────────────────────────────────────

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

    /// @dev A bound operation: the same content returns the canonical replyHash without effect, other content is refused.
    function _resolveRetry(bytes32 operationKey, AgentReply memory reply) private view returns (bytes32 replyHash) {
        AgentReply memory bound = _loadOperation(reply.workflowRunId, reply.replier, reply.operationId);
        bytes32 boundDigest = bound.replyDigest();
        bytes32 submittedDigest = reply.replyDigest();
        if (boundDigest != submittedDigest) revert OperationConflict(operationKey, boundDigest, submittedDigest);
        return bound.replyHash();
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
        if (run_.status != RunStatus.Pending) revert RunNotPending(reply.workflowRunId, run_.status);
        for (uint256 i = 0; i < tasks.length; ++i) {
            if (!_isOpen(run_, tasks[i])) revert TaskNotOpen(reply.prevTaskHashes[i]);
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

    function _checkBatchStage(ProofItem[] memory items) private view returns (uint8 stage) {
        stage = items[0].task.stage;
        for (uint256 i = 1; i < items.length; ++i) {
            if (items[i].task.stage != stage) revert MixedStages(items[i].replyHash, items[i].task.stage, stage);
        }
        if (_stages[stage].option == VerifierOption.None) revert StageWithoutVerifier(stage);
    }

    /// @dev Calls the stage's verifier for one reply and keeps the digest of option A. The input hash comes from the stored
    ///      task, never from the caller. Anything but a well-formed "valid" is a rejection: no code, a revert, a return
    ///      value of another length, a word that is no bool. Return data is never copied beyond two words.
    function _verify(StageConfig storage config, ProofItem memory item, bytes memory proof) private {
        AgentReply memory reply = item.reply;
        bytes32 inputHash = _inputHashOf(reply.prevTaskHashes[0], item.task);
        bool identityBound = config.option == VerifierOption.AgentVerifier;
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

    /// @dev Asks the gate about one reply and carries out its decision.
    function _evaluateGate(Run memory run_, uint32 taskSeq, bytes32 replyHash, AgentReply memory reply) private {
        bytes32 workflowRunId = reply.workflowRunId;
        GateDecision memory decision = _gate(
            GateInput({
                workflowRunId: workflowRunId,
                stage: run_.stage,
                taskHash: reply.prevTaskHashes[0],
                taskSeq: taskSeq,
                replyHash: replyHash,
                reply: reply
            })
        );
        if (decision.verdict == Verdict.Silent) return;
        if (decision.verdict == Verdict.Abort) return _fail(workflowRunId, run_);

        AgentTask memory task;
        task.prevReplyHashes = _checkTriggers(run_, workflowRunId, decision.triggers, replyHash);
        bytes32[] memory inputHashes = decision.inputHashes;
        if (decision.verdict == Verdict.Retry) {
            for (uint256 i = 0; i < reply.prevTaskHashes.length; ++i) {
                _closeTask(reply.prevTaskHashes[i]);
            }
            inputHashes = new bytes32[](1);
            inputHashes[0] = _inputHashOf(reply.prevTaskHashes[0], _loadTaskHead(reply.prevTaskHashes[0]));
        } else {
            if (decision.nextStage == FINAL_STAGE) return _complete(workflowRunId, run_, task);
            _requireStage(decision.nextStage);
            run_.stage = decision.nextStage;
            run_.firstOpenSeq = run_.taskCount;
        }
        task.stage = run_.stage;
        uint256 window = _stages[run_.stage].window;
        if (window != 0) task.expiresAt = block.timestamp + window;
        _dispatch(workflowRunId, run_, task, inputHashes, "");
    }

    /// @dev Stores one task for each input hash, then the run, then announces the tasks. Without input hashes: one task over
    ///      the outputs of its triggers.
    /// @param task The part that all tasks share: stage, expiresAt, prevReplyHashes
    function _dispatch(
        bytes32 workflowRunId,
        Run memory run_,
        AgentTask memory task,
        bytes32[] memory inputHashes,
        bytes memory input
    ) private {
        bool derived = inputHashes.length == 0;
        if (derived) {
            inputHashes = new bytes32[](1);
            inputHashes[0] = _joinOutputs(task.prevReplyHashes);
            derived = task.prevReplyHashes.length == 1;
        }
        uint256 count = inputHashes.length;
        if (count > MAX_PARALLEL_TASKS) revert TooManyTasks(count, MAX_PARALLEL_TASKS);
        task.timestamp = block.timestamp;
        task.workflowRunId = workflowRunId;
        bytes32 plaintextHash = input.length == 0 ? bytes32(0) : keccak256(input);
        for (uint256 i = 0; i < count; ++i) {
            task.inputHash = inputHashes[i];
            if (plaintextHash != 0 && task.inputHash == plaintextHash) {
                task.input = input;
                plaintextHash = 0;
            } else {
                task.input = "";
            }
            inputHashes[i] = _createTask(run_, task, derived); // from here on: the task's own hash
        }
        _saveRun(workflowRunId, run_);
        for (uint256 i = 0; i < count; ++i) {
            emit NewAgentTask(workflowRunId, task.stage, inputHashes[i]);
        }
    }

    /// @dev Ends a run as Success. The final task has no input, no expiry and no NewAgentTask event (ERC-8301, Terminal
    ///      stage); its `expiresAt` and `input`, which the text leaves open, are 0 and empty.
    function _complete(bytes32 workflowRunId, Run memory run_, AgentTask memory task) private {
        if (_stages[run_.stage].mode != StageMode.Sync) revert FinalGateNotSync(run_.stage);
        task.stage = FINAL_STAGE;
        task.timestamp = block.timestamp;
        task.workflowRunId = workflowRunId;
        run_.status = RunStatus.Success;
        bytes32 finalTaskHash = _createTask(run_, task, false);
        _saveRun(workflowRunId, run_);
        emit WorkflowCompleted(workflowRunId, RunStatus.Success, finalTaskHash, block.timestamp);
    }

    /// @dev Ends a run as Failed.
    function _fail(bytes32 workflowRunId, Run memory run_) private {
        run_.status = RunStatus.Failed;
        _saveRun(workflowRunId, run_);
        emit WorkflowCompleted(workflowRunId, RunStatus.Failed, bytes32(0), block.timestamp);
    }

    /// @dev The prevReplyHashes of the next tasks: what the gate named, each an anchored reply of this run, named once; or
    ///      the judged reply alone.
    function _checkTriggers(Run memory run_, bytes32 workflowRunId, bytes32[] memory triggers, bytes32 judgedReplyHash)
        private
        view
        returns (bytes32[] memory)
    {
        uint256 count = triggers.length;
        if (count == 0) {
            triggers = new bytes32[](1);
            triggers[0] = judgedReplyHash;
            return triggers;
        }
        if (count > MAX_TRIGGERS) revert InvalidTriggerCount(count, MAX_TRIGGERS);
        for (uint256 i = 0; i < count; ++i) {
            if (_loadReplyHead(triggers[i]).runIndex != run_.index) {
                revert ForeignTrigger(triggers[i], workflowRunId);
            }
            for (uint256 j = 0; j < i; ++j) {
                if (triggers[i] == triggers[j]) revert DuplicateTrigger(triggers[i]);
            }
        }
        return triggers;
    }

    // ── Private helpers ──────────────────────────────────────────────────────

    /// @dev Input hash of a task over the outputs of several replies; of one reply, its output hash itself.
    function _joinOutputs(bytes32[] memory replyHashes) private view returns (bytes32) {
        if (replyHashes.length == 1) return _outputHashOf(replyHashes[0]);
        bytes32[] memory outputHashes = new bytes32[](replyHashes.length);
        for (uint256 i = 0; i < replyHashes.length; ++i) {
            outputHashes[i] = _outputHashOf(replyHashes[i]);
        }
        return WorkflowHashing.listHash(outputHashes);
    }

    function _isOpen(Run memory run_, TaskHead memory task) private pure returns (bool) {
        return task.seq >= run_.firstOpenSeq && !task.closed;
    }

    /// @dev The first of these tasks that is not open; zero if all are.
    function _firstClosedTask(Run memory run_, bytes32[] memory taskHashes) private view returns (bytes32) {
        for (uint256 i = 0; i < taskHashes.length; ++i) {
            if (!_isOpen(run_, _loadTaskHead(taskHashes[i]))) return taskHashes[i];
        }
        return bytes32(0);
    }

    function _requireTask(bytes32 taskHash) private view returns (TaskHead memory head) {
        head = _loadTaskHead(taskHash);
        if (head.timestamp == 0) revert UnknownTask(taskHash);
    }

    function _requireReply(bytes32 replyHash) private view returns (ReplyHead memory head) {
        head = _loadReplyHead(replyHash);
        if (head.replier == address(0)) revert UnknownReply(replyHash);
    }

    function _requireStage(uint8 stage) internal view {
        if (stage >= _stageCount) revert UnknownStage(stage);
    }
}
