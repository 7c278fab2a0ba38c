// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// @notice The errors of RevertingMock, declared in an interface as those of a workflow are.
interface IRevertingMockErrors {
    struct Point {
        uint256 x;
        bytes32 y;
    }

    error NoArguments();
    error Arguments(uint256 id, address who);
    error SameArguments(uint256 id, address who);
    error AllKinds(bool flag, int8 number, bytes32 word, bytes data, string text, Point point, bytes32[] words);
    error Unnamed(uint256);
}
