// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {IProofVerifier} from "../interfaces/IProofVerifier.sol";

/// @title  MockProofVerifier
/// @notice Test double for ERC-8274 option B. Proves nothing: anyone can compute the proof it accepts. It does refuse
///         every other statement, so that a workflow which passes the wrong hashes or metadata fails.
contract MockProofVerifier is IProofVerifier {
    /// @inheritdoc IProofVerifier
    function proofSystem() external pure returns (string memory) {
        return "mock-test-only";
    }

    /// @inheritdoc IProofVerifier
    function proofProfile() external pure returns (bytes32) {
        return keccak256("mock-test-only-v1");
    }

    /// @inheritdoc IProofVerifier
    /// @dev Accepts exactly keccak256(abi.encodePacked(inputHash, outputHash, metadata)) as 32 raw bytes.
    function verify(bytes32 inputHash, bytes32 outputHash, bytes calldata metadata, bytes calldata proof)
        external
        pure
        returns (bool valid)
    {
        return proof.length == 32 && bytes32(proof) == keccak256(abi.encodePacked(inputHash, outputHash, metadata));
    }
}
