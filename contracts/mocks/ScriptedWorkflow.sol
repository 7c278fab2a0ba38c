// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentReply} from "../interfaces/IAgentWorkflow.sol";
import {StageConfig} from "../interfaces/IWorkflowViews.sol";
import {AgentWorkflow} from "../workflow/AgentWorkflow.sol";
import {GateDecision, GateInput, TimeoutInput} from "../workflow/WorkflowTypes.sol";

/// @title  ScriptedWorkflow
/// @notice Test double of a dynamic workflow. Its hooks do what the test scripted, and it keeps what they were asked:
///         a test sees what the base asks, and what the base does with any answer.
contract ScriptedWorkflow is AgentWorkflow {
    enum GateFault {
        None,
        Revert,
        BurnGas
    }

    /// @notice Of `_begin`, when it is scripted.
    struct BeginPlan {
        bool scripted;
        uint8 stage;
        bytes32[] inputHashes;
    }

    /// @notice Of the hooks that answer the same whatever they are asked; zero = as the base does.
    struct Settings {
        GateFault gateFault;
        bool expiryOptional;
        bool proofsSplit;
        address forwarder;
        bytes32 taskId;
        bytes32 agentId;
        bytes32 derivedInput;
    }

    /// @notice With which a gate reverts that was told to.
    error GateFailed(bytes32 replyHash);

    // What the hooks answer.
    BeginPlan private _plan;
    GateDecision[] private _gateScript;
    uint256 private _gateAnswers; // of the script, that are given
    GateDecision[] private _timeoutScript;
    uint256 private _timeoutAnswers;
    mapping(address account => bool) private _barred;
    Settings private _settings;

    // What the hooks were asked, ABI-encoded.
    bytes[] private _beginInputs;
    bytes[] private _gateInputs;
    bytes[] private _timeoutInputs;

    /// @param stages The stage table
    constructor(StageConfig[] memory stages) AgentWorkflow(stages) {}

    // ── Script ───────────────────────────────────────────────────────────────

    /// @notice Where every run begins. Without it: stage 0, one task over the run's input hash.
    function planBegin(uint8 stage, bytes32[] calldata inputHashes) external {
        _plan = BeginPlan(true, stage, inputHashes);
    }

    /// @notice The gate's next answer; after several calls, its next ones in order. Without one: Silent.
    function scriptGate(GateDecision calldata decision) external {
        _gateScript.push(decision);
    }

    /// @notice The timeout policy's next answer; after several calls, its next ones in order. Without one: the base's.
    function scriptTimeout(GateDecision calldata decision) external {
        _timeoutScript.push(decision);
    }

    /// @notice How the gate fails instead of answering.
    function failGate(GateFault fault) external {
        _settings.gateFault = fault;
    }

    /// @notice Whether `account` may not reply.
    function bar(address account, bool barred) external {
        _barred[account] = barred;
    }

    /// @notice Whether a run may have no expiry.
    function allowNoExpiry(bool allowed) external {
        _settings.expiryOptional = allowed;
    }

    /// @notice Whether a proof is an ABI-encoded `bytes[]` with one proof for each reply.
    function splitProofs(bool split) external {
        _settings.proofsSplit = split;
    }

    /// @notice Other identifiers for the verifier of option A; zero = the base's.
    function nameProofs(bytes32 taskId, bytes32 agentId) external {
        (_settings.taskId, _settings.agentId) = (taskId, agentId);
    }

    /// @notice Another input hash of tasks whose gate named none; zero = the base's.
    function deriveInput(bytes32 inputHash) external {
        _settings.derivedInput = inputHash;
    }

    /// @notice The contract whose calls end with the address of the account that acts, as in ERC-2771.
    function trustForwarder(address forwarder) external {
        _settings.forwarder = forwarder;
    }

    // ── Record ───────────────────────────────────────────────────────────────

    /// @notice abi.encode(workflowRunId, inputHash) of every call of `_begin`.
    function beginInputs() external view returns (bytes[] memory) {
        return _beginInputs;
    }

    /// @notice abi.encode(GateInput, anchorTime, stored) of every call of `_gate`; the last two are what `replyAnchorTime`
    ///         and `getAgentReply` answered by then.
    function gateInputs() external view returns (bytes[] memory) {
        return _gateInputs;
    }

    /// @notice abi.encode(TimeoutInput) of every call of `_onTimeout`.
    function timeoutInputs() external view returns (bytes[] memory) {
        return _timeoutInputs;
    }

    // ── Hooks ────────────────────────────────────────────────────────────────

    function _begin(bytes32 workflowRunId, bytes32 inputHash)
        internal
        override
        returns (uint8 stage, bytes32[] memory inputHashes)
    {
        _beginInputs.push(abi.encode(workflowRunId, inputHash));
        return _plan.scripted ? (_plan.stage, _plan.inputHashes) : (0, _repeat(inputHash, 1));
    }

    function _gate(GateInput memory input) internal override returns (GateDecision memory decision) {
        if (_settings.gateFault == GateFault.Revert) revert GateFailed(input.replyHash);
        if (_settings.gateFault == GateFault.BurnGas) _burnGas();
        if (_gateAnswers < _gateScript.length) decision = _gateScript[_gateAnswers++];
        // As bytes: to decode the answer here would not fit into the contract.
        (, bytes memory stored) = address(this).staticcall(abi.encodeCall(this.getAgentReply, (input.replyHash)));
        _gateInputs.push(abi.encode(input, this.replyAnchorTime(input.replyHash), stored));
    }

    function _onTimeout(TimeoutInput memory input) internal override returns (GateDecision memory decision) {
        if (_timeoutAnswers < _timeoutScript.length) decision = _timeoutScript[_timeoutAnswers++];
        else decision = super._onTimeout(input);
        _timeoutInputs.push(abi.encode(input));
    }

    function _isReplier(bytes32 workflowRunId, uint8 stage, address account) internal view override returns (bool) {
        return super._isReplier(workflowRunId, stage, account) && !_barred[account];
    }

    function _inputHashFor(bytes32[] memory outputHashes) internal view override returns (bytes32) {
        return _settings.derivedInput != 0 ? _settings.derivedInput : super._inputHashFor(outputHashes);
    }

    function _allowsNoExpiry() internal view override returns (bool) {
        return _settings.expiryOptional;
    }

    function _proofTaskId(AgentReply memory reply) internal view override returns (bytes32) {
        return _settings.taskId != 0 ? _settings.taskId : super._proofTaskId(reply);
    }

    function _proofAgentId(AgentReply memory reply) internal view override returns (bytes32) {
        return _settings.agentId != 0 ? _settings.agentId : super._proofAgentId(reply);
    }

    function _proofFor(uint256 position, uint256 count, bytes calldata proof)
        internal
        view
        override
        returns (bytes memory)
    {
        return _settings.proofsSplit ? abi.decode(proof, (bytes[]))[position] : super._proofFor(position, count, proof);
    }

    function _effectiveSender() internal view override returns (address) {
        if (msg.sender != _settings.forwarder) return super._effectiveSender();
        return address(bytes20(msg.data[msg.data.length - 20:]));
    }

    function _burnGas() private pure {
        uint256 rounds;
        while (true) {
            unchecked {
                ++rounds;
            }
        }
    }
}
