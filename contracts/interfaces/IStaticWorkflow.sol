// SPDX-License-Identifier: CC0-1.0
pragma solidity ^0.8.0;

import {StageMode} from "./IWorkflowViews.sol";

/// @title  IStaticWorkflow
/// @notice The published graph of a static workflow (ERC-8301, Static vs Dynamic FSM), so that a reader can enumerate every
///         owed dispatch from the chain: stage 0 first, then `next` until 255.
interface IStaticWorkflow {
    /// @notice Number of stages; they are numbered from 0.
    function stageCount() external view returns (uint256);

    /// @notice One stage of the table; its whole policy is in `stageConfig`. Reverts with UnknownStage.
    /// @return mode     When the gate is evaluated
    /// @return verifier The ERC-8274 verifier; zero if the stage takes no proofs
    /// @return window   Seconds that a task of this stage stays open; 0 = no expiry
    /// @return tasks    Tasks dispatched in parallel when the stage is entered; all must be answered before the transition
    /// @return next     The stages that can follow; exactly one in a static workflow. 255 = the run completes
    function stageAt(uint8 stage)
        external
        view
        returns (StageMode mode, address verifier, uint256 window, uint256 tasks, uint8[] memory next);
}
