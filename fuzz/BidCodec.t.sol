// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Test} from "forge-std/Test.sol";

import {BidOracle} from "./support/BidOracle.sol";

/// @notice `BidCodec` says yes exactly to what abi.decode takes and abi.encode gives back, and never reverts.
contract BidCodecFuzz is Test {
    BidOracle private _oracle;

    function setUp() public {
        _oracle = new BidOracle();
    }

    function testFuzz_decode__encoded_bid__valid_with_its_price(uint256 price, bytes memory payload) public view {
        (bool valid, uint256 decoded) = _oracle.decode(abi.encode(price, payload));
        assertTrue(valid);
        assertEq(decoded, price);
    }

    function testFuzz_decode__any_bytes__agrees(bytes memory output) public view {
        _compare(output);
    }

    function testFuzz_decode__one_byte_changed__agrees(
        uint256 price,
        bytes memory payload,
        uint256 position,
        bytes1 value
    ) public view {
        bytes memory output = abi.encode(price, payload);
        output[position % output.length] = value;
        _compare(output);
    }

    function testFuzz_decode__dirty_padding__invalid(uint256 price, uint8 length, uint256 position, bytes1 dirt)
        public
        view
    {
        length = uint8(bound(length, 1, 31)); // so that there is padding
        vm.assume(dirt != 0);
        bytes memory output = abi.encode(price, new bytes(length));
        output[bound(position, 96 + uint256(length), output.length - 1)] = dirt;
        (bool valid, uint256 decoded) = _compare(output);
        assertFalse(valid);
        assertEq(decoded, 0);
    }

    function testFuzz_decode__cut_short__agrees(uint256 price, bytes memory payload, uint256 length) public view {
        bytes memory output = abi.encode(price, payload);
        bytes memory cut = new bytes(bound(length, 0, output.length - 1));
        for (uint256 i = 0; i < cut.length; ++i) {
            cut[i] = output[i];
        }
        (bool valid,) = _compare(cut);
        assertFalse(valid);
    }

    function testFuzz_decode__something_appended__invalid(uint256 price, bytes memory payload, bytes memory tail)
        public
        view
    {
        vm.assume(tail.length != 0);
        (bool valid,) = _compare(bytes.concat(abi.encode(price, payload), tail));
        assertFalse(valid);
    }

    function testFuzz_decode__any_offset_and_length__agrees(
        uint256 price,
        uint256 offset,
        uint256 length,
        uint8 words,
        bool small
    ) public view {
        if (small) (offset, length) = (offset % 200, length % 200);
        bytes memory output = bytes.concat(abi.encode(price, offset, length), new bytes(32 * uint256(words % 8)));
        _compare(output);
    }

    function _compare(bytes memory output) private view returns (bool valid, uint256 price) {
        (bool expected, uint256 expectedPrice) = _oracle.isCanonical(output);
        (valid, price) = _oracle.decode(output);
        assertEq(valid, expected);
        assertEq(price, expectedPrice);
    }
}
