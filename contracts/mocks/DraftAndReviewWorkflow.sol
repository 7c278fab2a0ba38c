// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Stages} from "../workflow/Stages.sol";
import {StaticStage, StaticWorkflow} from "../workflow/StaticWorkflow.sol";
import {FINAL_STAGE, GateInput, Verdict} from "../workflow/WorkflowTypes.sol";

/// @notice The workflow that README.md quotes; a test keeps the two equal.
contract DraftAndReviewWorkflow is StaticWorkflow {
    constructor(address verifier) StaticWorkflow(_table(verifier)) {}

    function _judge(GateInput memory input) internal pure override returns (Verdict) {
        return input.reply.output.length == 0 ? Verdict.Silent : Verdict.Pass; // the text itself must be on chain
    }

    function _table(address verifier) private pure returns (StaticStage[] memory table) {
        table = new StaticStage[](2);
        table[0] = StaticStage(Stages.asyncStage(verifier, 1 days, 1), 1, 1); // draft: 1 task, then stage 1
        table[1] = StaticStage(Stages.syncStage(verifier, 1 days, 1 hours, 1), 1, FINAL_STAGE); // review, proven
    }
}
