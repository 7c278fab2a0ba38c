// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Test} from "forge-std/Test.sol";
import {console2} from "forge-std/console2.sol";

import {AgentReply, AgentTask, RunStatus} from "../../contracts/interfaces/IAgentWorkflow.sol";
import {IAgentWorkflowErrors} from "../../contracts/interfaces/IAgentWorkflowErrors.sol";
import {IStaticWorkflow} from "../../contracts/interfaces/IStaticWorkflow.sol";
import {OpenTask} from "../../contracts/interfaces/IWorkflowViews.sol";
import {AgentWorkflow} from "../../contracts/workflow/AgentWorkflow.sol";
import {
    FINAL_STAGE,
    MAX_PARALLEL_TASKS,
    MAX_PREV_TASKS,
    MAX_TRIGGERS
} from "../../contracts/workflow/WorkflowTypes.sol";
import {PlainHashing} from "../support/PlainHashing.sol";
import {Action, GhostReply, GhostRun, GhostTask, Kind} from "./GhostState.sol";
import {WorkflowHandler} from "./WorkflowHandler.sol";

/// @title  WorkflowInvariants
/// @notice The invariants of docs/INVARIANTS.md, one function each, on four workflows that `WorkflowHandler` drives. After
///         every call the run that it touched is looked at; after every sequence, all runs, against all invariants.
/// @dev    Every campaign draws the same sequences, since the seed is fixed. So the first is as long as foundry.toml says,
///         and its end of sequence speaks for all; the others look at their own invariant after every call of the first
///         sequences.
contract WorkflowInvariants is Test {
    WorkflowHandler private _handler;

    function setUp() public {
        vm.warp(1_800_000_000);
        _handler = new WorkflowHandler();
        targetContract(address(_handler));
    }

    // ── The invariants ───────────────────────────────────────────────────────

    function invariant_W01_tasks_are_stored_as_announced() public view {
        _onTouched(_checkW01);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W02_replies_are_stored_as_anchored() public view {
        _onTouched(_checkW02);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W03_final_task_exactly_on_success() public view {
        _onTouched(_checkW03);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W04_ended_runs_never_change() public view {
        _onTouched(_checkW04);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W05_stages_move_along_the_edges() public view {
        _onTouched(_checkW05);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W06_expiry_stops_replies() public view {
        _onTouched(_checkW06);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W07_proven_only_by_the_verifier() public view {
        _onTouched(_checkW07);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W08_taskSeq_counts_from_zero() public view {
        _onTouched(_checkW08);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W09_unknown_is_not_empty() public view {
        _onTouched(_checkW09);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W10_task_proven_is_its_previous_replies() public view {
        _onTouched(_checkW10);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W11_operations_stay_bound() public view {
        _onTouched(_checkW11);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W12_open_tasks_belong_to_the_stage() public view {
        _onTouched(_checkW12);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W13_time_only_runs_forward() public view {
        _onTouched(_checkW13);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W14_success_only_by_proof() public view {
        _onTouched(_checkW14);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W15_every_task_leads_back_to_the_start() public view {
        _onTouched(_checkW15);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W16_run_ids_are_unique() public view {
        _onTouched(_checkW16);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W17_checkReply_tells_the_truth() public view {
        _onTouched(_checkW17);
    }

    /// forge-config: default.invariant.runs = 12
    function invariant_W18_a_fresh_run_can_be_completed() public view {
        _onTouched(_checkW18);
    }

    /// @dev Runs after every sequence of calls.
    function afterInvariant() public view {
        for (uint256 run = 0; run < _handler.runCount(); ++run) {
            _checkAll(run);
        }
        _showCalls();
        // By then the handler has carried a run through. A shorter sequence is one that forge has cut down to show a
        // failure; the failure must stay the same then.
        if (_handler.calls() >= _handler.GUIDED_EVERY()) assertGt(_handler.completed(), 0, "no run was completed");
    }

    /// @dev The same actions drawn without a fuzzer, to be sure that each goes through and is refused where it can be.
    function test_handler__drawn_at_random__drives_every_action() public {
        uint256[12] memory done;
        uint256[12] memory refused;
        for (uint256 chain = 0; chain < 4; ++chain) {
            setUp();
            for (uint256 i = 0; i < 100; ++i) {
                _draw(uint256(keccak256(abi.encode("draw", chain, i))));
            }
            for (uint256 run = 0; run < _handler.runCount(); ++run) {
                _checkAll(run);
            }
            for (uint256 action = 0; action < 12; ++action) {
                done[action] += _handler.done(Action(action));
                refused[action] += _handler.refused(Action(action));
            }
            assertGt(_handler.completed(), 0);
        }
        for (uint256 action = 0; action < 12; ++action) {
            bool mustFail =
                _is(action, Action.ReplyBadly) || _is(action, Action.Conflict) || _is(action, Action.ProveWrongly);
            bool cannotFail = _is(action, Action.Retry) || _is(action, Action.Warp) || _is(action, Action.Start);
            console2.log(_name(Action(action)), done[action], refused[action]);
            if (mustFail) assertEq(done[action], 0, _name(Action(action)));
            else assertGt(done[action], 0, _name(Action(action)));
            if (!cannotFail) assertGt(refused[action], 0, _name(Action(action)));
        }
    }

    // ── Checks of one run ────────────────────────────────────────────────────

    function _checkAll(uint256 run) private view {
        _checkW01(run);
        _checkW02(run);
        _checkW03(run);
        _checkW04(run);
        _checkW05(run);
        _checkW06(run);
        _checkW07(run);
        _checkW08(run);
        _checkW09(run);
        _checkW10(run);
        _checkW11(run);
        _checkW12(run);
        _checkW13(run);
        _checkW14(run);
        _checkW15(run);
        _checkW16(run);
        _checkW17(run);
        _checkW18(run);
    }

    function _checkW01(uint256 run) private view {
        AgentWorkflow workflow = _workflow(run);
        GhostTask[] memory tasks = _handler.tasksOf(run);
        for (uint256 i = 0; i < tasks.length; ++i) {
            (AgentTask memory task,) = workflow.getAgentTask(tasks[i].hash);
            assertEq(PlainHashing.taskHash(task), tasks[i].hash, "W01: a task does not hash to its hash");
            assertEq(task.stage, tasks[i].stage, "W01: stage");
            assertEq(task.timestamp, tasks[i].dispatchedAt, "W01: timestamp");
            assertEq(task.expiresAt, tasks[i].expiresAt, "W01: expiresAt");
            assertEq(task.inputHash, _handler.inputHashOf(tasks[i].index), "W01: inputHash");
            assertEq(task.workflowRunId, _handler.runAt(run).id, "W01: workflowRunId");
        }
        _requireNoViolation(1);
    }

    function _checkW02(uint256 run) private view {
        AgentWorkflow workflow = _workflow(run);
        GhostReply[] memory replies = _handler.repliesOf(run);
        for (uint256 i = 0; i < replies.length; ++i) {
            (AgentReply memory stored,,,) = workflow.getAgentReply(replies[i].hash);
            assertEq(abi.encode(stored), abi.encode(replies[i].reply), "W02: a reply is not what was submitted");
            assertEq(PlainHashing.replyHash(stored), replies[i].hash, "W02: a reply does not hash to its hash");
            bytes32[] memory previous = stored.prevTaskHashes;
            assertTrue(previous.length > 0 && previous.length <= MAX_PREV_TASKS, "W02: number of tasks");
            for (uint256 j = 0; j < previous.length; ++j) {
                assertTrue(_isTaskOf(run, previous[j]), "W02: a reply names a task of no run or another run");
                for (uint256 k = 0; k < j; ++k) {
                    assertTrue(previous[j] != previous[k], "W02: a reply names a task twice");
                }
            }
        }
        _requireNoViolation(2);
    }

    function _checkW03(uint256 run) private view {
        GhostRun memory ghost = _handler.runAt(run);
        (RunStatus status, bytes32 finalTaskHash, uint256 completedAt) = _workflow(run).result(ghost.id);
        assertTrue(status == ghost.status, "W03: status is not what was announced");
        assertLe(ghost.completions, 1, "W03: a run ended twice");
        assertEq(finalTaskHash, ghost.finalTaskHash, "W03: finalTaskHash is not what was announced");
        assertEq(completedAt, ghost.completedAt, "W03: completedAt");
        assertEq(finalTaskHash != 0, status == RunStatus.Success, "W03: finalTaskHash without success");
        assertEq(completedAt != 0, status == RunStatus.Success, "W03: completedAt without success");
        if (status == RunStatus.Success) {
            (AgentTask memory task,) = _workflow(run).getAgentTask(finalTaskHash);
            assertEq(PlainHashing.taskHash(task), finalTaskHash, "W03: the final task does not hash to its hash");
            assertEq(task.stage, FINAL_STAGE, "W03: stage of the final task");
            assertEq(task.timestamp, completedAt, "W03: timestamp of the final task");
            assertEq(task.expiresAt, 0, "W03: the final task expires");
            assertEq(task.inputHash, 0, "W03: the final task has an input");
            assertEq(task.input.length, 0, "W03: the final task has a plaintext");
            assertFalse(_isTaskOf(run, finalTaskHash), "W03: the final task was announced by NewAgentTask");
        }
        _requireNoViolation(3);
    }

    function _checkW04(uint256 run) private view {
        GhostRun memory ghost = _handler.runAt(run);
        if (ghost.completions != 0) assertEq(_handler.sealOf(run), ghost.seal, "W04: an ended run changed");
        _requireNoViolation(4);
    }

    function _checkW05(uint256 run) private view {
        GhostRun memory ghost = _handler.runAt(run);
        (, uint8 stage,) = _workflow(run).runState(ghost.id);
        assertEq(stage, ghost.stage, "W05: the run is in another stage than announced");
        if (ghost.kind == Kind.Pipeline || ghost.kind == Kind.Audit) _checkStaticPath(run, ghost);
        _requireNoViolation(5);
    }

    /// @dev The published table is what happens: every task of every stage, one stage after the other.
    function _checkStaticPath(uint256 run, GhostRun memory ghost) private view {
        IStaticWorkflow table = IStaticWorkflow(address(_workflow(run)));
        GhostTask[] memory tasks = _handler.tasksOf(run);
        uint256 stages = table.stageCount();
        uint256[] memory lanes = new uint256[](stages); // a bit for each task of the stage that was dispatched
        for (uint256 i = 0; i < tasks.length; ++i) {
            lanes[tasks[i].stage] |= 1 << tasks[i].lane;
            if (i == 0 || tasks[i].stage == tasks[i - 1].stage) continue;
            (,,, uint256 answers, uint8[] memory next) = table.stageAt(tasks[i - 1].stage);
            assertEq(next[0], tasks[i].stage, "W05: a static run left its path");
            assertEq(_lanesAnswered(run, tasks, tasks[i].hash), (1 << answers) - 1, "W05: a task was not answered");
        }
        for (uint8 stage = 0; stage < stages; ++stage) {
            (,,, uint256 width,) = table.stageAt(stage);
            if (ghost.stage > stage || (ghost.stage == stage && lanes[stage] != 0)) {
                assertEq(lanes[stage], (1 << width) - 1, "W05: a task of a static stage was not dispatched");
            }
        }
        if (ghost.status == RunStatus.Success) assertEq(ghost.stage + 1, stages, "W05: a stage was left out");
    }

    /// @dev A bit for each task of the stage before that a previous reply of this task answers.
    function _lanesAnswered(uint256 run, GhostTask[] memory tasks, bytes32 taskHash)
        private
        view
        returns (uint256 lanes)
    {
        (AgentTask memory task,) = _workflow(run).getAgentTask(taskHash);
        for (uint256 i = 0; i < task.prevReplyHashes.length; ++i) {
            (AgentReply memory reply,,,) = _workflow(run).getAgentReply(task.prevReplyHashes[i]);
            (AgentTask memory answered,) = _workflow(run).getAgentTask(reply.prevTaskHashes[0]);
            assertEq(reply.prevTaskHashes.length, 1, "W05: one answer stands in for another");
            assertEq(answered.stage + 1, task.stage, "W05: a stage passed with an answer to another");
            lanes |= 1 << tasks[answered.taskSeq].lane;
        }
    }

    function _checkW06(uint256 run) private view {
        GhostReply[] memory replies = _handler.repliesOf(run);
        for (uint256 i = 0; i < replies.length; ++i) {
            for (uint256 j = 0; j < replies[i].reply.prevTaskHashes.length; ++j) {
                (AgentTask memory task,) = _workflow(run).getAgentTask(replies[i].reply.prevTaskHashes[j]);
                assertLe(replies[i].anchoredAt, task.expiresAt, "W06: a reply was anchored after expiry");
            }
        }
        _requireNoViolation(6);
    }

    function _checkW07(uint256 run) private view {
        GhostReply[] memory replies = _handler.repliesOf(run);
        for (uint256 i = 0; i < replies.length; ++i) {
            (, address verifier, bool proven, bytes32 digest) = _workflow(run).getAgentReply(replies[i].hash);
            assertEq(proven, replies[i].proven, "W07: proven is not what was proven");
            assertEq(verifier, proven ? _handler.verifier() : address(0), "W07: verifier");
            assertEq(digest, proven ? _digest(replies[i]) : bytes32(0), "W07: verificationDigest");
        }
        _requireNoViolation(7);
    }

    function _checkW08(uint256 run) private view {
        GhostTask[] memory tasks = _handler.tasksOf(run);
        for (uint256 i = 0; i < tasks.length; ++i) {
            (AgentTask memory task,) = _workflow(run).getAgentTask(tasks[i].hash);
            assertEq(task.taskSeq, i, "W08: taskSeq does not count");
        }
        bytes32 finalTaskHash = _handler.runAt(run).finalTaskHash;
        if (finalTaskHash == 0) return;
        (AgentTask memory last,) = _workflow(run).getAgentTask(finalTaskHash);
        assertEq(last.taskSeq, tasks.length, "W08: the final task is not the last");
    }

    function _checkW09(uint256 run) private view {
        AgentWorkflow workflow = _workflow(run);
        bytes32 id = _handler.runAt(run).id;
        assertTrue(workflow.runExists(id), "W09: a run does not exist");
        bytes32 unknown = keccak256(abi.encode("unknown", id));
        assertFalse(workflow.runExists(unknown), "W09: an unknown run exists");
        (RunStatus status, bytes32 finalTaskHash, uint256 completedAt) = workflow.result(unknown);
        assertTrue(
            status == RunStatus.Pending && finalTaskHash == 0 && completedAt == 0, "W09: result of an unknown run"
        );
        assertEq(workflow.getReplyHashByOperation(id, address(this), unknown), 0, "W09: an unknown operation is bound");
        _assertRefused(
            abi.encodeCall(workflow.runState, (unknown)),
            abi.encodeWithSelector(IAgentWorkflowErrors.UnknownRun.selector, unknown),
            run
        );
        // A run id is no task, a task no reply.
        _assertRefused(
            abi.encodeCall(workflow.getAgentTask, (id)),
            abi.encodeWithSelector(IAgentWorkflowErrors.UnknownTask.selector, id),
            run
        );
        bytes32 taskHash = _handler.tasksOf(run)[0].hash;
        _assertRefused(
            abi.encodeCall(workflow.getAgentReply, (taskHash)),
            abi.encodeWithSelector(IAgentWorkflowErrors.UnknownReply.selector, taskHash),
            run
        );
    }

    function _checkW10(uint256 run) private view {
        GhostTask[] memory tasks = _handler.tasksOf(run);
        for (uint256 i = 0; i < tasks.length; ++i) {
            _checkProven(run, tasks[i].hash);
        }
        bytes32 finalTaskHash = _handler.runAt(run).finalTaskHash;
        if (finalTaskHash != 0) _checkProven(run, finalTaskHash);
    }

    function _checkProven(uint256 run, bytes32 taskHash) private view {
        (AgentTask memory task, bool proven) = _workflow(run).getAgentTask(taskHash);
        bool expected = true;
        for (uint256 i = 0; i < task.prevReplyHashes.length; ++i) {
            if (!_handler.isProven(task.prevReplyHashes[i])) expected = false;
        }
        assertEq(proven, expected, "W10: proven of a task is not that of its previous replies");
    }

    function _checkW11(uint256 run) private view {
        GhostReply[] memory replies = _handler.repliesOf(run);
        for (uint256 i = 0; i < replies.length; ++i) {
            bytes32 bound_ = _workflow(run)
                .getReplyHashByOperation(
                    replies[i].reply.workflowRunId, replies[i].reply.replier, replies[i].reply.operationId
                );
            assertEq(bound_, replies[i].hash, "W11: an operation is bound to another reply");
        }
        _requireNoViolation(11);
    }

    function _checkW12(uint256 run) private view {
        GhostRun memory ghost = _handler.runAt(run);
        (RunStatus status,, OpenTask[] memory open) = _workflow(run).runState(ghost.id);
        assertEq(
            open.length == 0, status != RunStatus.Pending, "W12: a pending run waits for nothing, or an ended one does"
        );
        assertLe(open.length, MAX_PARALLEL_TASKS, "W12: too many open tasks");
        GhostTask[] memory tasks = _handler.tasksOf(run);
        uint256 lanes;
        for (uint256 i = 0; i < open.length; ++i) {
            GhostTask memory task = tasks[open[i].taskSeq];
            assertEq(task.hash, open[i].taskHash, "W12: an open task is unknown");
            assertEq(task.stage, ghost.stage, "W12: an open task belongs to another stage");
            assertFalse(task.wasClosed, "W12: a closed task is open");
            assertEq(open[i].lane, task.lane, "W12: lane");
            assertEq(open[i].expiresAt, task.expiresAt, "W12: expiresAt");
            assertEq(lanes & (1 << task.lane), 0, "W12: two open tasks have one lane");
            lanes |= 1 << task.lane;
        }
        _requireNoViolation(12);
    }

    function _checkW13(uint256 run) private view {
        AgentWorkflow workflow = _workflow(run);
        GhostReply[] memory replies = _handler.repliesOf(run);
        for (uint256 i = 0; i < replies.length; ++i) {
            (AgentReply memory reply,,,) = workflow.getAgentReply(replies[i].hash);
            assertEq(workflow.replyAnchorTime(replies[i].hash), replies[i].anchoredAt, "W13: anchor time");
            assertLe(reply.timestamp, replies[i].anchoredAt, "W13: a reply of the future");
            for (uint256 j = 0; j < reply.prevTaskHashes.length; ++j) {
                (AgentTask memory task,) = workflow.getAgentTask(reply.prevTaskHashes[j]);
                assertGt(reply.timestamp, task.timestamp, "W13: a reply is not later than its task");
            }
        }
        GhostTask[] memory tasks = _handler.tasksOf(run);
        for (uint256 i = 0; i < tasks.length; ++i) {
            (AgentTask memory task,) = workflow.getAgentTask(tasks[i].hash);
            for (uint256 j = 0; j < task.prevReplyHashes.length; ++j) {
                assertLe(
                    workflow.replyAnchorTime(task.prevReplyHashes[j]), task.timestamp, "W13: a task before its reply"
                );
            }
        }
    }

    function _checkW14(uint256 run) private view {
        GhostRun memory ghost = _handler.runAt(run);
        if (ghost.status != RunStatus.Success) return;
        assertTrue(ghost.completedByProof, "W14: a run was completed by something else than a proof");
        (AgentTask memory last, bool proven) = _workflow(run).getAgentTask(ghost.finalTaskHash);
        assertTrue(proven, "W14: a run was completed on an unproven reply");
        assertGt(last.prevReplyHashes.length, 0, "W14: a run was completed on no reply");
        for (uint256 i = 0; i < last.prevReplyHashes.length; ++i) {
            (AgentReply memory reply,,,) = _workflow(run).getAgentReply(last.prevReplyHashes[i]);
            (AgentTask memory answered,) = _workflow(run).getAgentTask(reply.prevTaskHashes[0]);
            assertEq(answered.stage, ghost.stage, "W14: a run was completed on a reply to an earlier stage");
        }
    }

    function _checkW15(uint256 run) private view {
        GhostTask[] memory tasks = _handler.tasksOf(run);
        for (uint256 i = 0; i < tasks.length; ++i) {
            _checkTriggers(run, tasks[i].hash, tasks[i].initial);
        }
        bytes32 finalTaskHash = _handler.runAt(run).finalTaskHash;
        if (finalTaskHash != 0) _checkTriggers(run, finalTaskHash, false);
    }

    /// @dev Previous replies are of this run, each named once, to tasks that came before: so the walk back ends, and it
    ///      ends at a task without previous replies, which only an initial one is.
    function _checkTriggers(uint256 run, bytes32 taskHash, bool initial) private view {
        (AgentTask memory task,) = _workflow(run).getAgentTask(taskHash);
        bytes32[] memory previous = task.prevReplyHashes;
        assertEq(previous.length == 0, initial, "W15: only an initial task has no previous reply");
        assertLe(previous.length, MAX_TRIGGERS, "W15: too many previous replies");
        for (uint256 i = 0; i < previous.length; ++i) {
            for (uint256 j = 0; j < i; ++j) {
                assertTrue(previous[i] != previous[j], "W15: a previous reply is named twice");
            }
            (AgentReply memory reply,,,) = _workflow(run).getAgentReply(previous[i]);
            assertEq(reply.workflowRunId, task.workflowRunId, "W15: a previous reply of another run");
            for (uint256 j = 0; j < reply.prevTaskHashes.length; ++j) {
                (AgentTask memory before,) = _workflow(run).getAgentTask(reply.prevTaskHashes[j]);
                assertLt(before.taskSeq, task.taskSeq, "W15: a task comes before what led to it");
            }
        }
    }

    function _checkW16(uint256 run) private view {
        GhostRun memory ghost = _handler.runAt(run);
        for (uint256 other = 0; other < run; ++other) {
            GhostRun memory before = _handler.runAt(other);
            assertTrue(before.kind != ghost.kind || before.id != ghost.id, "W16: two runs have one id");
        }
        _requireNoViolation(16);
    }

    function _checkW17(uint256) private view {
        _requireNoViolation(17);
    }

    function _checkW18(uint256) private view {
        _requireNoViolation(18);
    }

    // ── Helpers ──────────────────────────────────────────────────────────────

    function _onTouched(function(uint256) view check) private view {
        if (_handler.runCount() != 0) check(_handler.touched());
    }

    function _requireNoViolation(uint256 invariantNumber) private view {
        assertEq(_handler.violation(invariantNumber), "");
    }

    function _workflow(uint256 run) private view returns (AgentWorkflow) {
        return _handler.workflows(uint256(_handler.runAt(run).kind));
    }

    function _isTaskOf(uint256 run, bytes32 taskHash) private view returns (bool) {
        GhostTask[] memory tasks = _handler.tasksOf(run);
        for (uint256 i = 0; i < tasks.length; ++i) {
            if (tasks[i].hash == taskHash) return true;
        }
        return false;
    }

    function _digest(GhostReply memory reply) private view returns (bytes32) {
        return PlainHashing.verificationDigest(
            reply.reply.workflowRunId,
            PlainHashing.word(reply.reply.replier),
            _handler.inputHashOf(reply.task),
            reply.reply.outputHash,
            true,
            keccak256("mock-test-only-v1")
        );
    }

    function _assertRefused(bytes memory question, bytes memory expected, uint256 run) private view {
        (bool ok, bytes memory answer) = address(_workflow(run)).staticcall(question);
        assertFalse(ok, "W09: an unknown id has an answer");
        assertEq(answer, expected, "W09: an unknown id has another error");
    }

    function _draw(uint256 seed) private {
        Action action = Action((seed >> 128) % 12);
        if (action == Action.Start) _handler.start(seed);
        else if (action == Action.Reply) _handler.reply(seed);
        else if (action == Action.ReplyToSeveral) _handler.replyToSeveral(seed);
        else if (action == Action.ReplyBadly) _handler.replyBadly(seed, seed >> 64);
        else if (action == Action.Retry) _handler.retry(seed);
        else if (action == Action.Conflict) _handler.conflict(seed);
        else if (action == Action.Prove) _handler.prove(seed);
        else if (action == Action.ProveWrongly) _handler.proveWrongly(seed, abi.encode(seed));
        else if (action == Action.ProveBatch) _handler.proveBatch(seed);
        else if (action == Action.Timeout) _handler.timeout(seed);
        else if (action == Action.Warp) _handler.warp(seed);
        else _handler.advance(seed);
    }

    function _showCalls() private view {
        console2.log("calls that went through / were refused");
        for (uint256 action = 0; action < 12; ++action) {
            console2.log(_name(Action(action)), _handler.done(Action(action)), _handler.refused(Action(action)));
        }
        console2.log("runs: started, completed, failed");
        console2.log(_handler.runCount(), _handler.completed(), _handler.failed());
    }

    function _is(uint256 action, Action wanted) private pure returns (bool) {
        return action == uint256(wanted);
    }

    function _name(Action action) private pure returns (string memory) {
        return [
            "start",
            "reply",
            "replyToSeveral",
            "replyBadly",
            "retry",
            "conflict",
            "prove",
            "proveWrongly",
            "proveBatch",
            "timeout",
            "warp",
            "advance"
        ][uint256(action)];
    }
}
