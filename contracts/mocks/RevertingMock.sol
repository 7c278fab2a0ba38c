// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {IRevertingMockErrors} from "./IRevertingMockErrors.sol";

/// @title  RevertingMock
/// @notice Test double that fails in every way a call can fail, to test the strict check of reverts itself.
contract RevertingMock is IRevertingMockErrors {
    /// @notice Changed by `succeed` and `setLimit`, so that they are transactions.
    uint256 public calls;

    function revertNoArguments() external {
        calls++;
        revert NoArguments();
    }

    function revertArguments(uint256 id, address who) external {
        calls++;
        revert Arguments(id, who);
    }

    function revertSameArguments(uint256 id, address who) external {
        calls++;
        revert SameArguments(id, who);
    }

    function revertAllKinds(
        bool flag,
        int8 number,
        bytes32 word,
        bytes calldata data,
        string calldata text,
        Point calldata point,
        bytes32[] calldata words
    ) external {
        calls++;
        revert AllKinds(flag, number, word, data, text, point, words);
    }

    function revertUnnamed(uint256 id) external {
        calls++;
        revert Unnamed(id);
    }

    function revertString(string calldata reason) external {
        calls++;
        revert(reason);
    }

    /// @dev Overflows: panic 0x11.
    function revertPanic() external {
        calls++;
        calls += type(uint256).max;
    }

    function revertEmpty() external {
        calls++;
        // An empty revert is what this mock is for.
        revert(); // solhint-disable-line reason-string,gas-custom-errors
    }

    /// @notice Revert with exactly these bytes.
    function revertRaw(bytes memory data) external {
        calls++;
        // Only assembly can revert with arbitrary bytes.
        // solhint-disable-next-line no-inline-assembly
        assembly ("memory-safe") {
            revert(add(data, 0x20), mload(data))
        }
    }

    /// @notice Use up all gas of the call.
    function burnAllGas() external {
        while (true) calls++;
    }

    function succeed() external {
        calls++;
    }
}
