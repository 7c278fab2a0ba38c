// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {BidCodec} from "../../contracts/workflow/BidCodec.sol";

/// @notice Bids as Solidity's own decoder sees them, and `BidCodec` behind an external call, so that a revert would show.
contract BidOracle {
    /// @notice What a bid must be: something that abi.decode takes and abi.encode gives back.
    function isCanonical(bytes calldata output) external view returns (bool valid, uint256 price) {
        try this.decodeOrRevert(output) returns (uint256 price_, bytes memory payload) {
            valid = keccak256(abi.encode(price_, payload)) == keccak256(output);
            if (valid) price = price_;
        } catch {}
    }

    function decodeOrRevert(bytes calldata output) external pure returns (uint256 price, bytes memory payload) {
        return abi.decode(output, (uint256, bytes));
    }

    function decode(bytes calldata output) external pure returns (bool valid, uint256 price) {
        return BidCodec.decode(output);
    }
}
