// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {CommonBase} from "forge-std/Base.sol";
import {Vm} from "forge-std/Vm.sol";

import {CommitRevealWorkflow} from "../../contracts/examples/CommitRevealWorkflow.sol";
import {CompetitiveSelectionWorkflow} from "../../contracts/examples/CompetitiveSelectionWorkflow.sol";
import {ParallelAuditWorkflow} from "../../contracts/examples/ParallelAuditWorkflow.sol";
import {SequentialPipelineWorkflow} from "../../contracts/examples/SequentialPipelineWorkflow.sol";
import {AgentReply, AgentTask, IAgentWorkflow, RunStatus} from "../../contracts/interfaces/IAgentWorkflow.sol";
import {IWorkflowViews, OpenTask} from "../../contracts/interfaces/IWorkflowViews.sol";
import {MockAgentVerifier} from "../../contracts/mocks/MockAgentVerifier.sol";
import {AgentWorkflow} from "../../contracts/workflow/AgentWorkflow.sol";
import {PlainHashing} from "../support/PlainHashing.sol";
import {Action, GhostReply, GhostRun, GhostTask, Kind} from "./GhostState.sol";

/// @title  WorkflowHandler
/// @notice Drives four workflows with whatever the fuzzer draws: runs, replies good and bad, retries, proofs right and
///         wrong, timeouts, and time. Keeps a ghost of what happened, from its own calls, the events and the clock; what
///         it sees go through that must not is kept as a violation of an invariant, for `WorkflowInvariants` to report.
contract WorkflowHandler is CommonBase {
    uint256 public constant MAX_RUNS = 24;
    uint256 private constant _WINDOW = 7 days;
    uint256 private constant _PROOF_WINDOW = 1 days;
    uint256 private constant _PATIENCE = 60 days;
    uint256 private constant _ENDED = 1;
    uint256 private constant _EXPIRED = 2;
    uint256 private constant _CLOSED = 4;
    uint256 private constant _OTHER_STAGE = 8;
    uint256 private constant _BARRED = 16;
    uint256 public constant GUIDED_EVERY = 32;

    AgentWorkflow[4] public workflows;
    address public immutable verifier;
    GhostRun[] private _runs;
    GhostTask[] private _tasks;
    GhostReply[] private _replies;
    mapping(uint256 run => uint256[] tasks) private _tasksIn;
    mapping(uint256 run => uint256[] replies) private _repliesIn;
    mapping(bytes32 taskHash => uint256 taskPlusOne) private _taskAt;
    mapping(bytes32 replyHash => uint256 replyPlusOne) private _replyAt;
    mapping(bytes32 taskHash => bool) private _answered;
    mapping(bytes32 runId => uint256 runPlusOne) private _runAt;
    mapping(uint256 run => mapping(address agent => bytes plaintext)) private _secrets; // commit-reveal
    mapping(uint256 run => mapping(address agent => bool)) private _bid;

    mapping(Action => uint256) public done; // went through
    mapping(Action => uint256) public refused;
    uint256 public completed; // runs that ended as Success
    uint256 public failed;
    mapping(uint256 invariantNumber => string) public violation;
    uint256 public touched; // run of the last action
    uint256 public calls; // of any action

    address[3] private _agents = [address(0xA1), address(0xB2), address(0xC3)];
    uint256 private _operations;
    uint256 private _lane; // of the next task announced
    bool private _initial; // whether it has no previous reply
    uint256 private _expiry; // of the initial tasks of the run being started; 0 = not starting one
    bool private _proving;
    uint256 private _refusals; // reasons why the reply at hand must be refused

    constructor() {
        verifier = address(new MockAgentVerifier());
        workflows[uint256(Kind.Pipeline)] = new SequentialPipelineWorkflow(verifier);
        workflows[uint256(Kind.Audit)] = new ParallelAuditWorkflow(verifier);
        workflows[uint256(Kind.Selection)] = new CompetitiveSelectionWorkflow(verifier);
        workflows[uint256(Kind.CommitReveal)] = new CommitRevealWorkflow(verifier, 2);
    }

    /// @dev Every so often a fresh run is carried through, so that no sequence is without a completion; that this is
    ///      possible whatever happened to other runs is an invariant itself.
    modifier driven() {
        _;
        if (++calls % GUIDED_EVERY == 0) _carryThrough(Kind(_mix(1) % 4));
    }

    // ── Actions ──────────────────────────────────────────────────────────────

    function start(uint256 seed) external driven {
        seed = _mix(seed);
        // Few at a time, so that each gets far; unbounded runs would only begin.
        uint256 pending = _runs.length - completed - failed;
        if (pending < 6) _note(Action.Start, _start(Kind(seed % 4), seed));
    }

    /// @notice A reply as the stage wants it, in time, to any task that was ever announced.
    function reply(uint256 seed) external driven {
        seed = _mix(seed);
        if (_tasks.length == 0) return;
        uint256 task = _pickTask(seed);
        _wait(1);
        if (seed % 8 == 1) _wait(task, (seed / 8) % 2); // the last moment, or a second later
        (address agent, bytes32 outputHash, bytes memory output) = _answer(task, seed);
        AgentReply memory built = _build(_one(task), agent, outputHash, output);
        // Executed at any time since the task was dispatched.
        built.timestamp -= (seed / 8) % (block.timestamp - _tasks[task].dispatchedAt);
        _note(Action.Reply, _submit(built, agent));
    }

    /// @notice One reply to two or three tasks of one run, in any order; mostly of a run that has several open.
    function replyToSeveral(uint256 seed) external driven {
        seed = _mix(seed);
        if (_tasks.length == 0) return;
        uint256 first = _pickTask(seed);
        uint256[] memory pool = _tasksIn[_tasks[first].run];
        for (uint256 i = 0; i < _runs.length && seed % 4 != 0; ++i) {
            uint256[] memory open = _openTasks((seed / 8 + i) % _runs.length);
            if (open.length < 2) continue;
            pool = open;
            break;
        }
        if (pool.length < 2) return;
        bytes32[] memory hashes = new bytes32[](pool.length > 2 && seed % 2 == 0 ? 3 : 2);
        for (uint256 i = 0; i < hashes.length; ++i) {
            hashes[i] = _tasks[pool[(seed / 64 + i) % pool.length]].hash;
        }
        _wait(1);
        (address agent, bytes32 outputHash, bytes memory output) = _answer(_taskAt[hashes[0]] - 1, seed);
        _note(Action.ReplyToSeveral, _submit(_build(hashes, agent, outputHash, output), agent));
    }

    /// @notice A reply with one thing wrong; `_submit` knows that it must not go through.
    function replyBadly(uint256 seed, uint256 fault) external driven {
        seed = _mix(seed);
        if (_tasks.length == 0) return;
        uint256 task = _pickTask(seed);
        _wait(1);
        (address agent, bytes32 outputHash, bytes memory output) = _answer(task, seed);
        AgentReply memory bad = _build(_one(task), agent, outputHash, output);
        address sender = agent;
        fault %= 8;
        if (fault == 0) sender = address(0xBAD);
        if (fault == 1) bad.operationId = 0;
        if (fault == 2) bad.prevTaskHashes = new bytes32[](0);
        if (fault == 3) bad.prevTaskHashes[0] = keccak256(abi.encode(seed));
        if (fault == 4) bad.workflowRunId = _runs[(_tasks[task].run + 1) % _runs.length].id;
        if (fault == 5) bad.timestamp = _tasks[task].dispatchedAt;
        if (fault == 6) bad.timestamp = block.timestamp + 1;
        if (fault == 7) (bad.output, bad.outputHash) = ("not this", keccak256("that"));
        if (fault == 4 && bad.workflowRunId == _runs[_tasks[task].run].id) return; // there is one run only
        touched = _tasks[task].run;
        if (_tryReply(_workflowOf(task), bad, sender)) _violate(2, "a malformed reply was accepted");
        _note(Action.ReplyBadly, false);
    }

    /// @notice A logical retry: the same content, at another time, with another plaintext.
    function retry(uint256 seed) external driven {
        seed = _mix(seed);
        if (_replies.length == 0) return;
        GhostReply storage ghost = _replies[seed % _replies.length];
        touched = ghost.run;
        AgentReply memory again = ghost.reply;
        again.timestamp = block.timestamp;
        again.output = "";
        AgentWorkflow workflow = _workflows(ghost.run);
        vm.recordLogs();
        vm.prank(again.replier);
        try workflow.onAgentReply(again) returns (bytes32 canonical) {
            if (canonical != ghost.hash) _violate(11, "a retry returned another reply hash");
            if (vm.getRecordedLogs().length != 0) _violate(11, "a retry emitted an event");
            _note(Action.Retry, true);
        } catch {
            _violate(11, "a retry was refused");
        }
    }

    /// @notice The operation of an earlier reply, with other content.
    function conflict(uint256 seed) external driven {
        seed = _mix(seed);
        if (_replies.length == 0) return;
        GhostReply storage ghost = _replies[seed % _replies.length];
        touched = ghost.run;
        AgentReply memory other = ghost.reply;
        other.output = "";
        other.outputHash = keccak256(abi.encode(other.outputHash));
        if (_tryReply(_workflows(ghost.run), other, other.replier)) {
            _violate(11, "an operation was bound to other content");
        }
        _note(Action.Conflict, false);
    }

    function prove(uint256 seed) external driven {
        seed = _mix(seed);
        if (_replies.length == 0) return;
        uint256 picked = _pickReply(seed);
        _note(Action.Prove, _prove(_list(picked), _proofOf(picked)));
    }

    function proveWrongly(uint256 seed, bytes calldata proof) external driven {
        seed = _mix(seed);
        if (_replies.length == 0) return;
        uint256 picked = _pickReply(seed);
        GhostReply storage ghost = _replies[picked];
        if (ghost.proven || keccak256(proof) == keccak256(_proofOf(picked))) return;
        touched = ghost.run;
        bytes32[] memory hashes = new bytes32[](1);
        hashes[0] = ghost.hash;
        try _workflows(ghost.run).onAgentProve(hashes, proof) {
            _violate(7, "a wrong proof was accepted");
        } catch {}
        _note(Action.ProveWrongly, false);
    }

    /// @notice One proof for up to four replies of one run; right for those over the same input and output.
    function proveBatch(uint256 seed) external driven {
        seed = _mix(seed);
        if (_replies.length == 0) return;
        uint256 first = _pickReply(seed);
        uint256[] storage pool = _repliesIn[_replies[first].run];
        uint256[] memory picked = new uint256[](pool.length < 4 ? pool.length : 4);
        for (uint256 i = 0; i < picked.length; ++i) {
            picked[i] = pool[(seed / 16 + i) % pool.length];
        }
        _note(Action.ProveBatch, _prove(picked, _proofOf(picked[0])));
    }

    function timeout(uint256 seed) external driven {
        seed = _mix(seed);
        if (_tasks.length == 0) return;
        uint256 task = _pickTask(seed);
        // Now and then its deadline comes, to the second, or passes first.
        uint256 wait = [0, 1, _PROOF_WINDOW, _PROOF_WINDOW + 1, seed % 2 days][(seed / 3) % 5];
        if (seed % 3 == 0) _wait(task, wait);
        _note(Action.Timeout, _timeout(task));
    }

    /// @notice Minutes usually, now and then longer than every window.
    function warp(uint256 seed) external driven {
        seed = _mix(seed);
        _wait(seed % 8 == 0 ? 7 days + seed % 3 days : seed % 1 hours);
        vm.roll(block.number + seed % 3);
        _note(Action.Warp, true);
    }

    /// @notice The next right step of some run.
    function advance(uint256 seed) external driven {
        seed = _mix(seed);
        if (_runs.length == 0) return;
        _note(Action.Advance, _step(seed % _runs.length, seed));
    }

    // ── What the invariants read ─────────────────────────────────────────────

    function runCount() external view returns (uint256) {
        return _runs.length;
    }

    function runAt(uint256 run) external view returns (GhostRun memory) {
        return _runs[run];
    }

    function tasksOf(uint256 run) external view returns (GhostTask[] memory found) {
        found = new GhostTask[](_tasksIn[run].length);
        for (uint256 i = 0; i < found.length; ++i) {
            found[i] = _tasks[_tasksIn[run][i]];
        }
    }

    function repliesOf(uint256 run) external view returns (GhostReply[] memory found) {
        found = new GhostReply[](_repliesIn[run].length);
        for (uint256 i = 0; i < found.length; ++i) {
            found[i] = _replies[_repliesIn[run][i]];
        }
    }

    function isProven(bytes32 replyHash) external view returns (bool) {
        return _replies[_replyAt[replyHash] - 1].proven;
    }

    /// @notice Hash of everything that can be read about a run.
    function sealOf(uint256 run) public view returns (bytes32 seal) {
        bytes32 id = _runs[run].id;
        address workflow = address(_workflows(run));
        seal = _seal(seal, workflow, abi.encodeCall(IWorkflowViews.runState, (id)));
        seal = _seal(seal, workflow, abi.encodeCall(IAgentWorkflow.result, (id)));
        seal = _seal(seal, workflow, abi.encodeCall(IAgentWorkflow.getAgentTask, (_runs[run].finalTaskHash)));
        for (uint256 i = 0; i < _tasksIn[run].length; ++i) {
            bytes32 taskHash = _tasks[_tasksIn[run][i]].hash;
            seal = _seal(seal, workflow, abi.encodeCall(IAgentWorkflow.getAgentTask, (taskHash)));
        }
        for (uint256 i = 0; i < _repliesIn[run].length; ++i) {
            bytes32 replyHash = _replies[_repliesIn[run][i]].hash;
            seal = _seal(seal, workflow, abi.encodeCall(IAgentWorkflow.getAgentReply, (replyHash)));
        }
    }

    // ── Runs ─────────────────────────────────────────────────────────────────

    function _start(Kind kind, uint256 seed) private returns (bool) {
        if (_runs.length == MAX_RUNS) return false;
        bytes memory input = seed % 3 == 0 ? abi.encode(seed) : bytes("");
        bytes32 inputHash = input.length == 0 ? keccak256(abi.encode("hidden", seed)) : keccak256(input);
        _expiry = block.timestamp + 1 + seed % 30 days;
        if (seed % 5 == 0) _expiry += uint256(1) << (40 + seed % 200); // beyond what is packed
        vm.recordLogs();
        vm.prank(_agents[seed % 3]);
        bytes32 id = workflows[uint256(kind)].run(inputHash, input, _expiry);
        if (_runAt[id] != 0 && _runs[_runAt[id] - 1].kind == kind) _violate(16, "a run id was given twice");
        GhostRun storage run = _runs.push();
        (run.kind, run.id, run.inputHash) = (kind, id, inputHash);
        _runAt[id] = _runs.length;
        touched = _runs.length - 1;
        (_lane, _initial) = (0, true);
        _observe();
        _expiry = 0;
        return true;
    }

    /// @dev The next right step: a reply, a proof, or a timeout.
    function _step(uint256 run, uint256 seed) private returns (bool) {
        touched = run;
        (RunStatus status,, OpenTask[] memory open) = _workflows(run).runState(_runs[run].id);
        if (status != RunStatus.Pending || open.length == 0) return false;
        uint256 task = _taskAt[open[seed % open.length].taskHash] - 1;
        if (_isSync(run, _tasks[task].stage)) {
            for (uint256 i = 0; i < _repliesIn[run].length; ++i) {
                uint256 candidate = _repliesIn[run][i];
                if (_replies[candidate].task != task || _replies[candidate].proven) continue;
                return _prove(_list(candidate), _proofOf(candidate));
            }
        }
        if (block.timestamp + 1 > _tasks[task].expiresAt || !_canAnswer(task)) {
            uint256 deadline = open[seed % open.length].deadline;
            if (deadline > block.timestamp + _PATIENCE) return false;
            if (deadline >= block.timestamp) vm.warp(deadline + 1);
            return _timeout(task);
        }
        _wait(1);
        (address agent, bytes32 outputHash, bytes memory output) = _rightAnswer(task);
        return _submit(_build(_one(task), agent, outputHash, output), agent);
    }

    /// @dev A fresh run, start to end.
    function _carryThrough(Kind kind) private {
        if (!_start(kind, _mix(0))) return;
        uint256 run = touched;
        for (uint256 i = 0; i < 16 && _runs[run].completions == 0; ++i) {
            if (!_step(run, i)) break;
        }
        if (_runs[run].status != RunStatus.Success) _violate(18, "a fresh run could not be completed");
    }

    // ── Replies ──────────────────────────────────────────────────────────────

    function _build(bytes32[] memory taskHashes, address agent, bytes32 outputHash, bytes memory output)
        private
        returns (AgentReply memory)
    {
        bytes32 runId = _runs[_tasks[_taskAt[taskHashes[0]] - 1].run].id;
        bytes32 operationId = keccak256(abi.encode(++_operations));
        return AgentReply(operationId, outputHash, output, block.timestamp, agent, taskHashes, runId);
    }

    /// @dev Submits a well-formed new reply, and knows from the ghost alone whether it must be accepted.
    function _submit(AgentReply memory submitted, address sender) private returns (bool accepted) {
        uint256 task = _taskAt[submitted.prevTaskHashes[0]] - 1;
        uint256 run = touched = _tasks[task].run;
        bool allowed;
        try _workflows(run).checkReply(submitted) {
            allowed = true;
        } catch {}
        _judge(run, submitted);
        bytes32 replyHash = PlainHashing.replyHash(submitted);
        (_lane, _initial) = (0, false);
        vm.recordLogs();
        vm.prank(sender);
        try _workflows(run).onAgentReply(submitted) returns (bytes32 canonical) {
            if (canonical != replyHash) _violate(2, "onAgentReply returned another hash");
            accepted = true;
        } catch {}
        if (accepted != allowed) _violate(17, "checkReply and onAgentReply disagree");
        if (!accepted) {
            if (_refusals == 0) _violate(12, "a good reply to an open task was refused");
            return false;
        }
        if (_refusals & _ENDED != 0) _violate(4, "a reply was accepted after the end of its run");
        if (_refusals & _EXPIRED != 0) _violate(6, "a reply was accepted after expiry");
        if (_refusals & _CLOSED != 0) _violate(12, "a reply was accepted to a closed task");
        if (_refusals & _OTHER_STAGE != 0) _violate(12, "a reply was accepted to a task of another stage");
        if (_refusals & _BARRED != 0) _violate(12, "a reply was accepted from an agent who may not");
        _keep(run, task, replyHash, submitted);
        _observe();
    }

    function _judge(uint256 run, AgentReply memory submitted) private {
        _refusals = _runs[run].completions != 0 ? _ENDED : 0;
        for (uint256 i = 0; i < submitted.prevTaskHashes.length; ++i) {
            GhostTask storage answered = _tasks[_taskAt[submitted.prevTaskHashes[i]] - 1];
            if (block.timestamp > answered.expiresAt) _refusals |= _EXPIRED;
            if (answered.wasClosed) _refusals |= _CLOSED;
            if (answered.stage != _runs[run].stage) _refusals |= _OTHER_STAGE;
            bool execution = _runs[run].kind == Kind.Selection && answered.stage == 1;
            if (execution && submitted.replier != _replierBefore(answered.index)) _refusals |= _BARRED;
        }
    }

    function _keep(uint256 run, uint256 task, bytes32 replyHash, AgentReply memory submitted) private {
        GhostReply storage ghost = _replies.push();
        (ghost.run, ghost.task, ghost.hash, ghost.anchoredAt) = (run, task, replyHash, block.timestamp);
        ghost.reply = submitted;
        _replyAt[replyHash] = _replies.length;
        _repliesIn[run].push(_replies.length - 1);
        for (uint256 i = 0; i < submitted.prevTaskHashes.length; ++i) {
            _answered[submitted.prevTaskHashes[i]] = true;
        }
        if (_tasks[task].stage == 0 && _runs[run].kind == Kind.Selection && submitted.output.length != 0) {
            _bid[run][submitted.replier] = true;
        }
    }

    function _tryReply(AgentWorkflow workflow, AgentReply memory submitted, address sender) private returns (bool) {
        vm.prank(sender);
        try workflow.onAgentReply(submitted) {
            return true;
        } catch {
            return false;
        }
    }

    /// @dev Any answer: the right one, or one that the gate discards, or from an agent who may not.
    function _answer(uint256 task, uint256 seed) private returns (address agent, bytes32 hash, bytes memory output) {
        if (seed % 5 < 3 && _canAnswer(task)) return _rightAnswer(task);
        agent = _agents[(seed / 3) % 3];
        output = seed % 2 == 0 ? bytes("") : abi.encode(seed);
        hash = output.length == 0 ? keccak256(abi.encode("withheld", seed % 4)) : keccak256(output);
    }

    function _canAnswer(uint256 task) private view returns (bool) {
        uint256 run = _tasks[task].run;
        Kind kind = _runs[run].kind;
        if (kind == Kind.Selection && _tasks[task].stage == 0) return _nextAgent(run, true) != address(0);
        if (kind == Kind.CommitReveal && _tasks[task].stage < 2) {
            return _nextAgent(run, _tasks[task].stage == 0) != address(0);
        }
        return true;
    }

    /// @dev What an honest agent whose turn it is answers.
    function _rightAnswer(uint256 task) private returns (address agent, bytes32 hash, bytes memory output) {
        uint256 run = _tasks[task].run;
        uint8 stage = _tasks[task].stage;
        Kind kind = _runs[run].kind;
        agent = _agents[task % 3];
        if (kind == Kind.Selection && stage == 0) {
            agent = _nextAgent(run, true);
            output = abi.encode(uint256(uint160(agent)) % 7, bytes("bid"));
            return (agent, keccak256(output), output);
        }
        if (kind == Kind.Selection) agent = _replierBefore(task);
        if (kind == Kind.CommitReveal && stage == 0) {
            agent = _nextAgent(run, true);
            output = bytes.concat("result", keccak256(abi.encode(run, agent)), bytes20(agent));
            _secrets[run][agent] = output;
            return (agent, keccak256(output), "");
        }
        if (kind == Kind.CommitReveal && stage == 1) {
            agent = _nextAgent(run, false);
            output = _secrets[run][agent];
            delete _secrets[run][agent];
            return (agent, keccak256(output), output);
        }
        if (kind == Kind.CommitReveal) return (agent, keccak256("result"), "");
        output = task % 2 == 0 ? bytes("") : abi.encode("output", task);
        hash = output.length == 0 ? keccak256(abi.encode("withheld", task % 2)) : keccak256(output);
    }

    /// @dev An agent who has not bid or committed yet; or one who has committed and not revealed.
    function _nextAgent(uint256 run, bool fresh) private view returns (address) {
        bool selection = _runs[run].kind == Kind.Selection;
        for (uint256 i = 0; i < 3; ++i) {
            address agent = _agents[i];
            bool used = selection ? _bid[run][agent] : _secrets[run][agent].length != 0;
            if (used != fresh) return agent;
        }
        return address(0);
    }

    /// @dev Who gave the reply that triggered the task.
    function _replierBefore(uint256 task) private view returns (address) {
        return _replies[_replyAt[_previousReplies(task)[0]] - 1].reply.replier;
    }

    // ── Proofs and timeouts ──────────────────────────────────────────────────

    function _prove(uint256[] memory picked, bytes memory proof) private returns (bool accepted) {
        uint256 run = touched = _replies[picked[0]].run;
        bool ended = _runs[run].completions != 0;
        bytes32[] memory hashes = new bytes32[](picked.length);
        bool right = true;
        for (uint256 i = 0; i < picked.length; ++i) {
            hashes[i] = _replies[picked[i]].hash;
            if (!_replies[picked[i]].proven && keccak256(_proofOf(picked[i])) != keccak256(proof)) right = false;
        }
        (_lane, _initial, _proving) = (0, false, true);
        vm.recordLogs();
        vm.prank(address(0x9999));
        try _workflows(run).onAgentProve(hashes, proof) {
            accepted = true;
        } catch {}
        if (accepted) {
            if (ended) _violate(4, "a proof was accepted after the end of its run");
            if (!right) _violate(7, "a wrong proof was accepted");
            for (uint256 i = 0; i < picked.length; ++i) {
                _replies[picked[i]].proven = true;
            }
            _observe();
        } else if (right && !ended && picked.length == 1) {
            _violate(7, "a right proof was refused");
        }
        _proving = false;
    }

    /// @dev The proof that the verifier wants, from the ghost's own idea of the task's input.
    function _proofOf(uint256 replied) private view returns (bytes memory) {
        GhostReply storage ghost = _replies[replied];
        return abi.encode(keccak256(abi.encodePacked(inputHashOf(ghost.task), ghost.reply.outputHash)));
    }

    /// @notice What a task's input must be: that of the run, or the outputs of the replies that triggered it.
    function inputHashOf(uint256 task) public view returns (bytes32) {
        GhostTask storage ghost = _tasks[task];
        if (ghost.initial) return _runs[ghost.run].inputHash;
        bytes32[] memory previous = _previousReplies(task);
        bytes memory outputs;
        for (uint256 i = 0; i < previous.length; ++i) {
            outputs = bytes.concat(outputs, _replies[_replyAt[previous[i]] - 1].reply.outputHash);
        }
        if (_runs[ghost.run].kind == Kind.CommitReveal && ghost.stage == 2) return keccak256("result");
        return outputs.length == 32 ? bytes32(outputs) : keccak256(outputs);
    }

    function _timeout(uint256 task) private returns (bool accepted) {
        GhostTask storage ghost = _tasks[task];
        touched = ghost.run;
        bool ended = _runs[ghost.run].completions != 0;
        uint256 deadline = ghost.expiresAt;
        if (_isSync(ghost.run, ghost.stage) && _answered[ghost.hash]) deadline += _PROOF_WINDOW;
        (_lane, _initial) = (ghost.lane, ghost.initial);
        vm.recordLogs();
        vm.prank(address(0x8888));
        try _workflows(ghost.run).replyTimeout(ghost.hash) {
            accepted = true;
        } catch {}
        bool due = !ended && !ghost.wasClosed && block.timestamp > deadline;
        if (!accepted) {
            if (due) _violate(6, "a task was not timed out after its deadline");
            return false;
        }
        if (ended) _violate(4, "a timeout was accepted after the end of its run");
        if (ghost.wasClosed) _violate(12, "a closed task was timed out");
        if (block.timestamp <= deadline) _violate(6, "a task was timed out before its deadline");
        _observe();
    }

    // ── Ghost ────────────────────────────────────────────────────────────────

    /// @dev Takes in the events of the last call, then looks which tasks are open now.
    function _observe() private {
        uint256 run = touched;
        address emitter = address(_workflows(run));
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].emitter != emitter) continue;
            if (logs[i].topics[1] != _runs[run].id) _violate(1, "an event names another run");
            bytes32 signature = logs[i].topics[0];
            if (signature == IAgentWorkflow.NewAgentTask.selector) {
                _observeTask(run, uint8(uint256(logs[i].topics[2])), logs[i].topics[3]);
            } else if (signature == IAgentWorkflow.WorkflowCompleted.selector) {
                _observeEnd(run, logs[i].data);
            } else if (signature == IAgentWorkflow.AgentReplyAnchored.selector) {
                if (i != 0 || logs[i].topics[2] != _replies[_replies.length - 1].hash) {
                    _violate(2, "the anchoring of a reply is not the first event of its transaction");
                }
            }
        }
        _observeOpenTasks(run);
        if (_runs[run].completions != 0 && _runs[run].seal == 0) _runs[run].seal = sealOf(run);
    }

    function _observeTask(uint256 run, uint8 stage, bytes32 taskHash) private {
        if (_taskAt[taskHash] != 0) _violate(1, "a task was announced twice");
        if (_runs[run].completions != 0) _violate(4, "a task was announced after the end of its run");
        if (_runs[run].announced != 0 && !_isEdge(_runs[run].kind, _runs[run].stage, stage)) {
            _violate(5, "a run moved along no edge");
        }
        GhostTask storage task = _tasks.push();
        (task.index, task.run, task.hash, task.stage) = (_tasks.length - 1, run, taskHash, stage);
        (task.lane, task.dispatchedAt) = (_lane++, block.timestamp);
        task.expiresAt = _expiry != 0 ? _expiry : block.timestamp + _WINDOW;
        // Of what a timeout dispatches, a task of another stage is no retry.
        task.initial = _initial && (_runs[run].announced == 0 || stage == _runs[run].stage);
        _taskAt[taskHash] = _tasks.length;
        _tasksIn[run].push(task.index);
        ++_runs[run].announced;
        _runs[run].stage = stage;
    }

    function _observeEnd(uint256 run, bytes memory data) private {
        GhostRun storage ghost = _runs[run];
        ++ghost.completions;
        uint256 timestamp;
        (ghost.status, ghost.finalTaskHash, timestamp) = abi.decode(data, (RunStatus, bytes32, uint256));
        if (timestamp != block.timestamp) _violate(3, "a run ended at another time");
        ghost.completedByProof = _proving;
        if (ghost.status == RunStatus.Success) (ghost.completedAt, completed) = (timestamp, completed + 1);
        else ++failed;
    }

    function _observeOpenTasks(uint256 run) private {
        (,, OpenTask[] memory open) = _workflows(run).runState(_runs[run].id);
        for (uint256 i = 0; i < _tasksIn[run].length; ++i) {
            GhostTask storage task = _tasks[_tasksIn[run][i]];
            bool isOpen;
            for (uint256 j = 0; j < open.length; ++j) {
                if (open[j].taskHash == task.hash) isOpen = true;
            }
            if (isOpen && task.wasClosed) _violate(12, "a closed task is open again");
            if (!isOpen) task.wasClosed = true;
        }
    }

    // ── Helpers ──────────────────────────────────────────────────────────────

    function _note(Action action, bool success) private {
        if (success) ++done[action];
        else ++refused[action];
    }

    /// @dev What the fuzzer draws is often small or the same again.
    function _mix(uint256 seed) private view returns (uint256) {
        return uint256(keccak256(abi.encode(seed, calls)));
    }

    function _violate(uint256 invariantNumber, string memory what) private {
        violation[invariantNumber] = what;
    }

    /// @dev Mostly a task that is still open, of any run.
    function _pickTask(uint256 seed) private view returns (uint256 task) {
        for (uint256 i = 0; i < 8; ++i) {
            task = (seed / 8 + i * i) % _tasks.length;
            if (seed % 4 == 0 || !_tasks[task].wasClosed) return task;
        }
    }

    function _openTasks(uint256 run) private view returns (uint256[] memory open) {
        uint256[] memory all = _tasksIn[run];
        uint256 count;
        for (uint256 i = 0; i < all.length; ++i) {
            if (!_tasks[all[i]].wasClosed) all[count++] = all[i];
        }
        open = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) {
            open[i] = all[i];
        }
    }

    /// @dev Mostly a reply that is not proven yet, in a run that has not ended.
    function _pickReply(uint256 seed) private view returns (uint256 replied) {
        for (uint256 i = 0; i < 8; ++i) {
            replied = (seed / 8 + i * i) % _replies.length;
            if (seed % 4 == 0) return replied;
            if (!_replies[replied].proven && _runs[_replies[replied].run].completions == 0) return replied;
        }
    }

    function _list(uint256 item) private pure returns (uint256[] memory list) {
        list = new uint256[](1);
        list[0] = item;
    }

    function _one(uint256 task) private view returns (bytes32[] memory hashes) {
        hashes = new bytes32[](1);
        hashes[0] = _tasks[task].hash;
    }

    function _wait(uint256 seconds_) private {
        vm.warp(block.timestamp + seconds_);
    }

    /// @dev Until so long after the task's expiry, if that is near.
    function _wait(uint256 task, uint256 after_) private {
        uint256 until = _tasks[task].expiresAt + after_;
        if (until > block.timestamp && until < block.timestamp + _PATIENCE) vm.warp(until);
    }

    function _workflows(uint256 run) private view returns (AgentWorkflow) {
        return workflows[uint256(_runs[run].kind)];
    }

    function _workflowOf(uint256 task) private view returns (AgentWorkflow) {
        return _workflows(_tasks[task].run);
    }

    function _previousReplies(uint256 task) private view returns (bytes32[] memory) {
        (AgentTask memory stored,) = _workflowOf(task).getAgentTask(_tasks[task].hash);
        return stored.prevReplyHashes;
    }

    function _isSync(uint256 run, uint8 stage) private view returns (bool) {
        Kind kind = _runs[run].kind;
        if (kind == Kind.Audit || kind == Kind.Selection) return stage >= 1;
        return stage == 2;
    }

    /// @dev The graph of each workflow, a retry of the same stage included.
    function _isEdge(Kind kind, uint8 from, uint8 to) private pure returns (bool) {
        uint8 last = kind == Kind.Selection ? 1 : 2;
        return to <= last && (to == from || to == from + 1);
    }

    function _seal(bytes32 seal, address workflow, bytes memory question) private view returns (bytes32) {
        (bool ok, bytes memory answer) = workflow.staticcall(question);
        return keccak256(abi.encode(seal, ok, answer));
    }
}
