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
        // Price, offset of the payload, its length; then the payload, zero-padded to full words.
        if (output.length < 96 || output.length % 32 != 0) return (false, 0);
        uint256 offset;
        uint256 length;
        (price, offset, length) = abi.decode(output, (uint256, uint256, uint256)); // three static words cannot revert
        uint256 room = output.length - 96;
        if (offset != 64 || length > room || room - length > 31) return (false, 0);
        for (uint256 i = 96 + length; i < output.length; ++i) {
            if (output[i] != 0) return (false, 0);
        }
        return (true, price);
    }
}
