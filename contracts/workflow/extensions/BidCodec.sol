// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// @title  BidCodec
/// @notice Strict decoding of a bid, `abi.encode(uint256 price, bytes payload)`, that answers instead of reverting, so that
///         a gate can discard a malformed bid silently.
library BidCodec {
    /// @notice Read a bid. Only the canonical encoding is valid, so that one bid has one output hash.
    /// @param output Reply output
    /// @return valid Whether `output` is exactly what abi.encode gives for some price and payload
    /// @return price The price; 0 if not valid
    function decode(bytes memory output) internal pure returns (bool valid, uint256 price) {
        if (output.length < 96) return (false, 0);
        uint256 offset;
        uint256 length;
        (price, offset, length) = abi.decode(output, (uint256, uint256, uint256)); // three static words cannot revert
        if (offset != 64 || length > output.length - 96) return (false, 0);
        (, bytes memory payload) = abi.decode(output, (uint256, bytes)); // in bounds, so this cannot revert either
        valid = keccak256(abi.encode(price, payload)) == keccak256(output); // length and padding are canonical
        if (!valid) price = 0;
    }
}
