// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {IAgentVerifier} from "../interfaces/IAgentVerifier.sol";
import {IProofVerifier} from "../interfaces/IProofVerifier.sol";
import {WorkflowHashing} from "../workflow/WorkflowHashing.sol";

/// @title  MisbehavingVerifier
/// @notice Test double for both options of ERC-8274 that misbehaves in the way it is told to. Honest, it accepts any
///         non-empty proof; and it keeps what it was asked.
contract MisbehavingVerifier is IAgentVerifier, IProofVerifier {
    enum Mode {
        Honest,
        SayNo,
        RevertWithReason,
        RevertEmpty,
        AnswerRaw, // exactly the bytes of `setRawAnswer`
        ReturnBomb, // one megabyte
        BurnGas,
        Reenter, // make the call of `setReentry`, then answer honestly
        ChangeMind // yes the first time, then no
    }

    /// @notice With which it reverts when it gives a reason.
    error VerifierBroken();

    bytes32 private constant _PROFILE = keccak256("misbehaving-test-only-v1");
    uint256 private constant _BOMB = 1_000_000;

    Mode private _mode;
    bytes private _rawAnswer;
    address private _reentryTarget;
    bytes private _reentryData;
    bytes[] private _questions;

    /// @notice How often the call of `setReentry` was made.
    uint256 public reentries;
    /// @notice Whether the last such call succeeded.
    bool public reentrySucceeded;
    /// @notice What the last such call returned, or reverted with.
    bytes public reentryReturn;

    /// @notice From now on behave like this.
    function setMode(Mode mode) external {
        _mode = mode;
    }

    /// @notice From now on answer with exactly these bytes.
    function setRawAnswer(bytes calldata answer) external {
        (_mode, _rawAnswer) = (Mode.AnswerRaw, answer);
    }

    /// @notice From now on make this call before an honest answer.
    function setReentry(address target, bytes calldata data) external {
        (_mode, _reentryTarget, _reentryData) = (Mode.Reenter, target, data);
    }

    /// @notice The calldata of every `verify` that did not revert.
    function questions() external view returns (bytes[] memory) {
        return _questions;
    }

    /// @notice Profile that enters the verification digest.
    function agentProofProfile() external pure returns (bytes32) {
        return _PROFILE;
    }

    /// @inheritdoc IProofVerifier
    function proofSystem() external pure returns (string memory) {
        return "misbehaving-test-only";
    }

    /// @inheritdoc IProofVerifier
    function proofProfile() external pure returns (bytes32) {
        return _PROFILE;
    }

    /// @inheritdoc IAgentVerifier
    function verify(bytes32 taskId, bytes32 agentId, bytes32 inputHash, bytes32 outputHash, bytes calldata proof)
        external
        returns (bool valid, bytes32 verificationDigest)
    {
        valid = _misbehave(proof);
        bytes32 digest = WorkflowHashing.verificationDigest(taskId, agentId, inputHash, outputHash, valid, _PROFILE);
        return (valid, digest);
    }

    /// @inheritdoc IProofVerifier
    function verify(bytes32, bytes32, bytes calldata, bytes calldata proof) external returns (bool valid) {
        return _misbehave(proof);
    }

    function _misbehave(bytes calldata proof) private returns (bool valid) {
        Mode mode = _mode;
        if (mode == Mode.RevertWithReason) revert VerifierBroken();
        // solhint-disable-next-line reason-string, gas-custom-errors
        if (mode == Mode.RevertEmpty) revert();
        if (mode == Mode.ReturnBomb) _answer(new bytes(_BOMB));
        if (mode == Mode.BurnGas) _burnGas();
        _questions.push(msg.data);
        if (mode == Mode.AnswerRaw) _answer(_rawAnswer);
        if (mode == Mode.SayNo) return false;
        if (mode == Mode.ChangeMind) return _questions.length == 1;
        if (mode == Mode.Reenter) _reenter();
        return proof.length != 0;
    }

    function _reenter() private {
        ++reentries;
        // solhint-disable-next-line avoid-low-level-calls
        (reentrySucceeded, reentryReturn) = _reentryTarget.call(_reentryData);
    }

    function _burnGas() private pure {
        uint256 rounds;
        while (true) {
            unchecked {
                ++rounds;
            }
        }
    }

    /// @dev Ends the call with exactly these bytes, whatever the function's return type.
    function _answer(bytes memory data) private pure {
        // solhint-disable-next-line no-inline-assembly
        assembly ("memory-safe") {
            return(add(data, 0x20), mload(data))
        }
    }
}
