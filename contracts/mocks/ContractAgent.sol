// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// @title  ContractAgent
/// @notice Test double of an agent that is a contract: makes any calls as itself, several of them in one transaction.
///         With an address at the end of the calldata it plays an ERC-2771 forwarder.
contract ContractAgent {
    struct Outcome {
        bool success;
        bytes data; // returned, or reverted with
    }

    Outcome[] private _outcomes;

    /// @notice Make one call; a revert is passed on as it is.
    function execute(address target, bytes calldata data) external {
        // solhint-disable-next-line avoid-low-level-calls
        (bool success, bytes memory returned) = target.call(data);
        _outcomes.push(Outcome(success, returned));
        if (success) return;
        // solhint-disable-next-line no-inline-assembly
        assembly ("memory-safe") {
            revert(add(returned, 0x20), mload(returned))
        }
    }

    /// @notice Make several calls in order, whether they succeed or not.
    function tryAll(address target, bytes[] calldata calls) external {
        for (uint256 i = 0; i < calls.length; ++i) {
            // solhint-disable-next-line avoid-low-level-calls
            (bool success, bytes memory returned) = target.call(calls[i]);
            _outcomes.push(Outcome(success, returned));
        }
    }

    /// @notice What became of every call, in order.
    function outcomes() external view returns (Outcome[] memory) {
        return _outcomes;
    }
}
