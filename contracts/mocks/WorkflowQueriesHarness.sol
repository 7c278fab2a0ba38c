// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {WorkflowQueries} from "../workflow/WorkflowQueries.sol";
import {TaskHead, WorkflowStorage} from "../workflow/WorkflowStorage.sol";

/// @title  WorkflowQueriesHarness
/// @notice Test double that asks WorkflowQueries about runs of any length without the transactions to make them.
contract WorkflowQueriesHarness {
    using WorkflowQueries for WorkflowStorage.State;

    WorkflowStorage.State private _store;

    /// @notice `isChainProven` of a task that `taskSeq` tasks of its run came before, and that is linked to none of them.
    function isChainProven(uint32 taskSeq) external view returns (bool) {
        TaskHead memory task;
        task.seq = taskSeq;
        return _store.isChainProven(task);
    }
}
