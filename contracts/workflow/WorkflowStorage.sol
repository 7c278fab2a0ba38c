// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentReply, AgentTask, RunStatus} from "../interfaces/IAgentWorkflow.sol";
import {IAgentWorkflowErrors} from "../interfaces/IAgentWorkflowErrors.sol";
import {WorkflowHashing} from "./WorkflowHashing.sol";
import {MAX_WAITING_TASKS} from "./WorkflowTypes.sol";

/// @dev One slot. `index` is 0 exactly when the run is unknown.
struct Run {
    uint40 index; // runNonce + 1
    uint32 taskCount; // taskSeq of the next task
    uint32 firstOpenSeq; // tasks with a lower taskSeq are closed
    uint8 stage;
    RunStatus status;
    uint32 tally; // of the gate, since the run entered the stage
}

/// @dev One slot. `timestamp` is 0 exactly when the task is unknown.
struct TaskHead {
    uint40 runIndex;
    uint32 seq;
    uint8 stage;
    uint40 timestamp;
    uint40 expiresAt; // unless WIDE_EXPIRY
    uint16 prevCount; // entries of prevReplyHashes
    uint16 unprovenCount; // those of them that are not proven; 0 = the task is proven
    uint8 lane; // position in the parallel dispatch; a retried task keeps it
    uint8 attempt; // how often the task has been dispatched anew after a timeout
    uint8 flags; // see the constants below
}

/// @dev TaskHead.flags: consumed or superseded, although not below the run's firstOpenSeq.
uint8 constant CLOSED = 1;
/// @dev TaskHead.flags: in a sync stage with a proof window, a reply waits (or has waited) for its proof.
uint8 constant ANSWERED = 2;
/// @dev TaskHead.flags: `expiresAt` is in TaskRecord.wideExpiresAt.
uint8 constant WIDE_EXPIRY = 4;
/// @dev TaskHead.flags: `inputHash` is the outputHash of the single previous reply.
uint8 constant DERIVED_INPUT = 8;
/// @dev TaskHead.flags: the input plaintext is not empty.
uint8 constant HAS_INPUT = 16;

struct TaskRecord {
    TaskHead head;
    bytes32 inputHash; // unless DERIVED_INPUT
    uint256 wideExpiresAt; // only if WIDE_EXPIRY
    mapping(uint256 position => bytes32) prevReplyHashes;
    bytes input;
}

/// @dev One slot. `replier` is 0 exactly when the reply is unknown.
struct ReplyHead {
    address replier;
    uint40 runIndex;
    uint32 firstChildSeq; // a task that waits for this reply's proof; 0 = none (the initial task waits for none)
    bool proven;
    bool hasOutput; // the plaintext is not empty
    uint8 moreChildren; // further waiting tasks; they are in ReplyRecord.moreChildSeqs
}

/// @dev The half of a reply that is keyed by replyHash.
struct ReplyRecord {
    ReplyHead head;
    bytes32 operationId;
    bytes32 verificationDigest;
    mapping(uint256 position => uint256 taskSeq) moreChildSeqs;
    bytes output;
}

/// @dev The half of a reply that is keyed by operationKey. `anchoredAt` is 0 exactly when the operation is unbound.
struct Operation {
    bytes32 outputHash;
    uint40 timestamp;
    uint40 anchoredAt;
    uint8 taskCount; // entries of prevTaskHashes
    uint32 firstTaskSeq; // prevTaskHashes[0]
    uint256 moreTaskSeqs; // the others, 32 bits each, from the lowest; written only if there are any
}

/// @title  WorkflowStorage
/// @notice Where runs, tasks and replies are kept. Packed for gas; every struct read back is byte-exact, so that
///         `taskHash` and `replyHash` recompute from it.
/// @dev    No rule of the state machine lives here: `AgentWorkflow` decides, this library remembers. It works on a `State`
///         that `AgentWorkflow` keeps private, so that no child can write a record. New slots written by each action, none of
///         which depends on earlier runs or replies:
///
///         run      run word, run id, task head, input hash, task hash                              = 5
///         reply    operation id, reply head, output hash, operation word                           = 4
///         task     task head, task hash, one for each previous reply (+ input hash if not derived) = 3
///         proof    verification digest (option A)                                                  = 1
///
///         What makes it small:
///         - a run has a short index, so that a task and a reply name their run in 40 bits;
///         - a task has its `taskSeq`, so that replies and child links name it in 32 bits;
///         - a reply's fields are split between its operation key and its hash. Each half leads to the other (the
///           operation's replyHash recomputes from the operation id and the stored fields), so that the binding
///           operationKey -> (replyDigest, replyHash) needs no slot of its own;
///         - tasks below the run's `firstOpenSeq` are closed, so that closing a stage writes no task;
///         - a task triggered by one reply takes that reply's `outputHash` as its `inputHash` without a copy;
///         - `finalTaskHash` is the hash of the run's last task and `completedAt` is that task's timestamp.
///
///         Timestamps are block timestamps (or bounded by them) and fit 40 bits. A caller-chosen `expiresAt` that does not
///         fit is kept exactly, in a slot of its own.
library WorkflowStorage {
    using WorkflowHashing for AgentReply;
    using WorkflowHashing for AgentTask;

    struct State {
        uint40 nextRunIndex; // runNonce + 1 of the next run; starts at 1, so that 0 means "no run". Only openRun writes it
        mapping(bytes32 workflowRunId => Run) runs;
        mapping(uint256 runIndex => bytes32 workflowRunId) runIds;
        mapping(uint256 runIndex => mapping(uint256 taskSeq => bytes32 taskHash)) taskHashes;
        mapping(bytes32 taskHash => TaskRecord) tasks;
        mapping(bytes32 replyHash => ReplyRecord) replies;
        mapping(bytes32 operationKey => Operation) operations;
    }

    /// @dev Once, in the constructor.
    function open(State storage self) internal {
        self.nextRunIndex = 1;
    }

    // ── Runs ─────────────────────────────────────────────────────────────────

    /// @dev Assigns the next run identifier. The run word itself is written by `saveRun`.
    function openRun(State storage self, address sender) internal returns (bytes32 workflowRunId, Run memory run_) {
        uint40 index = self.nextRunIndex;
        self.nextRunIndex = index + 1;
        workflowRunId = WorkflowHashing.runId(sender, block.number, index - 1);
        self.runIds[index] = workflowRunId;
        run_.index = index;
    }

    function saveRun(State storage self, bytes32 workflowRunId, Run memory run_) internal {
        self.runs[workflowRunId] = run_;
    }

    function loadRun(State storage self, bytes32 workflowRunId) internal view returns (Run memory) {
        return self.runs[workflowRunId];
    }

    function runIdAt(State storage self, uint256 runIndex) internal view returns (bytes32 workflowRunId) {
        return self.runIds[runIndex];
    }

    /// @dev Of a run that has a task with this taskSeq.
    function taskHashAt(State storage self, uint256 runIndex, uint256 seq) internal view returns (bytes32 taskHash) {
        return self.taskHashes[runIndex][seq];
    }

    // ── Tasks ────────────────────────────────────────────────────────────────

    /// @dev Stores a task as the run's next one and links it to those of its previous replies that are not proven.
    ///      Advances `run_.taskCount` in memory; the caller saves the run.
    /// @param task         Complete but for `taskSeq`, which is filled in here
    /// @param derivedInput Whether `task.inputHash` is the `outputHash` of its single previous reply
    /// @param lane         Position in the parallel dispatch
    /// @param attempt      How often the task has been dispatched anew after a timeout
    function createTask(
        State storage self,
        Run memory run_,
        AgentTask memory task,
        bool derivedInput,
        uint8 lane,
        uint8 attempt
    ) internal returns (bytes32 taskHash) {
        uint32 seq = run_.taskCount;
        run_.taskCount = seq + 1;
        task.taskSeq = seq;
        taskHash = task.taskHash();
        self.taskHashes[run_.index][seq] = taskHash;

        TaskRecord storage record = self.tasks[taskHash];
        uint256 prevCount = task.prevReplyHashes.length;
        uint16 unprovenCount;
        for (uint256 i = 0; i < prevCount; ++i) {
            bytes32 replyHash = task.prevReplyHashes[i];
            record.prevReplyHashes[i] = replyHash;
            if (_addChild(self, replyHash, seq)) ++unprovenCount;
        }
        TaskHead memory head;
        head.runIndex = run_.index;
        head.seq = seq;
        head.stage = task.stage;
        head.timestamp = uint40(task.timestamp);
        head.prevCount = uint16(prevCount);
        head.unprovenCount = unprovenCount;
        head.lane = lane;
        head.attempt = attempt;
        if (derivedInput) head.flags |= DERIVED_INPUT;
        else if (task.inputHash != 0) record.inputHash = task.inputHash;
        if (task.expiresAt <= type(uint40).max) {
            head.expiresAt = uint40(task.expiresAt);
        } else {
            head.flags |= WIDE_EXPIRY;
            record.wideExpiresAt = task.expiresAt;
        }
        if (task.input.length != 0) {
            head.flags |= HAS_INPUT;
            record.input = task.input;
        }
        record.head = head;
    }

    /// @dev Sets CLOSED or ANSWERED on a task.
    function flagTask(State storage self, bytes32 taskHash, uint8 flag) internal {
        self.tasks[taskHash].head.flags |= flag;
    }

    function loadTaskHead(State storage self, bytes32 taskHash) internal view returns (TaskHead memory) {
        return self.tasks[taskHash].head;
    }

    /// @dev 0 = the task does not expire.
    function expiryOf(State storage self, bytes32 taskHash, TaskHead memory head) internal view returns (uint256) {
        return head.flags & WIDE_EXPIRY != 0 ? self.tasks[taskHash].wideExpiresAt : head.expiresAt;
    }

    function inputHashOf(State storage self, bytes32 taskHash, TaskHead memory head) internal view returns (bytes32) {
        TaskRecord storage record = self.tasks[taskHash];
        return head.flags & DERIVED_INPUT != 0 ? outputHashOf(self, record.prevReplyHashes[0]) : record.inputHash;
    }

    /// @dev The task as the ERC defines it. Of a known task.
    function loadTask(State storage self, bytes32 taskHash, TaskHead memory head)
        internal
        view
        returns (AgentTask memory task)
    {
        TaskRecord storage record = self.tasks[taskHash];
        task.stage = head.stage;
        task.taskSeq = head.seq;
        task.inputHash = inputHashOf(self, taskHash, head);
        if (head.flags & HAS_INPUT != 0) task.input = copy(record.input);
        task.timestamp = head.timestamp;
        task.expiresAt = expiryOf(self, taskHash, head);
        task.prevReplyHashes = new bytes32[](head.prevCount);
        for (uint256 i = 0; i < head.prevCount; ++i) {
            task.prevReplyHashes[i] = record.prevReplyHashes[i];
        }
        task.workflowRunId = self.runIds[head.runIndex];
    }

    function isOpen(Run memory run_, TaskHead memory task) internal pure returns (bool) {
        return task.seq >= run_.firstOpenSeq && task.flags & CLOSED == 0;
    }

    /// @dev As `isOpen`, of tasks as they are stored now.
    function areOpen(State storage self, Run memory run_, bytes32[] memory taskHashes) internal view returns (bool) {
        for (uint256 i = 0; i < taskHashes.length; ++i) {
            TaskHead storage task = self.tasks[taskHashes[i]].head;
            if (task.seq < run_.firstOpenSeq || task.flags & CLOSED != 0) return false;
        }
        return true;
    }

    // ── Replies ──────────────────────────────────────────────────────────────

    /// @dev Binds the operation and stores the reply, with the block's timestamp as its anchor time.
    /// @param tasks The heads of `reply.prevTaskHashes`, in order
    function storeReply(
        State storage self,
        bytes32 operationKey,
        bytes32 replyHash,
        AgentReply memory reply,
        TaskHead[] memory tasks
    ) internal {
        Operation storage operation = self.operations[operationKey];
        operation.outputHash = reply.outputHash;
        operation.timestamp = uint40(reply.timestamp);
        operation.anchoredAt = uint40(block.timestamp);
        operation.taskCount = uint8(tasks.length);
        operation.firstTaskSeq = tasks[0].seq;
        uint256 more;
        for (uint256 i = tasks.length - 1; i > 0; --i) {
            more = (more << 32) | tasks[i].seq;
        }
        if (more != 0) operation.moreTaskSeqs = more;

        ReplyRecord storage record = self.replies[replyHash];
        record.operationId = reply.operationId;
        record.head = ReplyHead({
            replier: reply.replier,
            runIndex: tasks[0].runIndex,
            firstChildSeq: 0,
            proven: false,
            hasOutput: reply.output.length != 0,
            moreChildren: 0
        });
        if (reply.output.length != 0) record.output = reply.output;
    }

    function isBound(State storage self, bytes32 operationKey) internal view returns (bool) {
        return self.operations[operationKey].anchoredAt != 0;
    }

    /// @dev The reply that a bound operation is bound to, without its output plaintext.
    function loadOperation(
        State storage self,
        uint256 runIndex,
        bytes32 workflowRunId,
        address replier,
        bytes32 operationId
    ) internal view returns (AgentReply memory reply) {
        Operation storage operation = self.operations[WorkflowHashing.operationKey(workflowRunId, replier, operationId)];
        reply.operationId = operationId;
        reply.outputHash = operation.outputHash;
        reply.timestamp = operation.timestamp;
        reply.replier = replier;
        reply.workflowRunId = workflowRunId;
        uint256 taskCount = operation.taskCount;
        reply.prevTaskHashes = new bytes32[](taskCount);
        mapping(uint256 => bytes32) storage taskHashes = self.taskHashes[runIndex];
        reply.prevTaskHashes[0] = taskHashes[operation.firstTaskSeq];
        if (taskCount == 1) return reply;
        uint256 more = operation.moreTaskSeqs;
        for (uint256 i = 1; i < taskCount; ++i) {
            reply.prevTaskHashes[i] = taskHashes[uint32(more)];
            more >>= 32;
        }
    }

    function loadReplyHead(State storage self, bytes32 replyHash) internal view returns (ReplyHead memory) {
        return self.replies[replyHash].head;
    }

    /// @dev The reply as the ERC defines it, but without its output plaintext. Of a known reply.
    function loadReply(State storage self, bytes32 replyHash, ReplyHead memory head)
        internal
        view
        returns (AgentReply memory)
    {
        return loadOperation(
            self, head.runIndex, self.runIds[head.runIndex], head.replier, self.replies[replyHash].operationId
        );
    }

    /// @dev The output plaintext; empty if it was withheld. Of a known reply.
    function outputOf(State storage self, bytes32 replyHash) internal view returns (bytes memory output) {
        ReplyRecord storage record = self.replies[replyHash];
        if (record.head.hasOutput) output = copy(record.output);
    }

    /// @dev Zero for an unknown reply.
    function runIndexOf(State storage self, bytes32 replyHash) internal view returns (uint256) {
        return self.replies[replyHash].head.runIndex;
    }

    function isProven(State storage self, bytes32 replyHash) internal view returns (bool) {
        return self.replies[replyHash].head.proven;
    }

    function outputHashOf(State storage self, bytes32 replyHash) internal view returns (bytes32) {
        return _operationOf(self, replyHash).outputHash;
    }

    /// @dev block.timestamp when the reply was anchored. Of a known reply.
    function anchorTimeOf(State storage self, bytes32 replyHash) internal view returns (uint256) {
        return _operationOf(self, replyHash).anchoredAt;
    }

    function verificationDigestOf(State storage self, bytes32 replyHash) internal view returns (bytes32) {
        return self.replies[replyHash].verificationDigest;
    }

    /// @dev Marks a reply proven and takes it off the count of every task that waits for it.
    function markProven(State storage self, bytes32 replyHash, bytes32 verificationDigest) internal {
        ReplyRecord storage record = self.replies[replyHash];
        record.head.proven = true;
        if (verificationDigest != 0) record.verificationDigest = verificationDigest;

        uint32 childSeq = record.head.firstChildSeq;
        if (childSeq == 0) return;
        mapping(uint256 => bytes32) storage taskHashes = self.taskHashes[record.head.runIndex];
        --self.tasks[taskHashes[childSeq]].head.unprovenCount;
        uint256 more = record.head.moreChildren;
        for (uint256 i = 0; i < more; ++i) {
            --self.tasks[taskHashes[record.moreChildSeqs[i]]].head.unprovenCount;
        }
    }

    // ── Private helpers ──────────────────────────────────────────────────────

    function _operationOf(State storage self, bytes32 replyHash) private view returns (Operation storage) {
        ReplyRecord storage record = self.replies[replyHash];
        bytes32 workflowRunId = self.runIds[record.head.runIndex];
        return self.operations[WorkflowHashing.operationKey(workflowRunId, record.head.replier, record.operationId)];
    }

    /// @dev One copy routine instead of one at each use.
    function copy(bytes storage data) internal pure returns (bytes memory) {
        return data;
    }

    /// @dev Links a task to a reply that is not proven yet. Returns false, and writes nothing, if it is proven.
    function _addChild(State storage self, bytes32 replyHash, uint32 childSeq) private returns (bool waits) {
        ReplyRecord storage record = self.replies[replyHash];
        if (record.head.proven) return false;
        if (record.head.firstChildSeq == 0) {
            record.head.firstChildSeq = childSeq;
        } else {
            uint8 more = record.head.moreChildren;
            if (uint256(more) + 2 > MAX_WAITING_TASKS) {
                revert IAgentWorkflowErrors.TooManyWaitingTasks(replyHash, MAX_WAITING_TASKS);
            }
            record.moreChildSeqs[more] = childSeq;
            record.head.moreChildren = more + 1;
        }
        return true;
    }
}
