// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Test} from "forge-std/Test.sol";

import {AgentReply, AgentTask} from "../contracts/interfaces/IAgentWorkflow.sol";
import {WorkflowHashing} from "../contracts/workflow/WorkflowHashing.sol";
import {PlainHashing} from "./support/PlainHashing.sol";

/// @notice `WorkflowHashing` against a second implementation of the same formulas, over the whole range of every field.
contract WorkflowHashingFuzz is Test {
    function testFuzz_taskHash__any_task__equals_plain(AgentTask memory task) public pure {
        assertEq(WorkflowHashing.taskHash(task), PlainHashing.taskHash(task));
    }

    function testFuzz_taskHash__no_previous_replies__inner_term_is_hash_of_nothing(AgentTask memory task) public pure {
        task.prevReplyHashes = new bytes32[](0);
        assertEq(WorkflowHashing.taskHash(task), PlainHashing.taskHash(task));
        assertEq(PlainHashing.listHash(task.prevReplyHashes), keccak256(""));
    }

    function testFuzz_taskHash__other_input_plaintext__same_hash(AgentTask memory task, bytes memory input)
        public
        pure
    {
        bytes32 before = WorkflowHashing.taskHash(task);
        task.input = input;
        assertEq(WorkflowHashing.taskHash(task), before);
    }

    function testFuzz_replyHash__any_reply__equals_plain(AgentReply memory reply) public pure {
        assertEq(WorkflowHashing.replyHash(reply), PlainHashing.replyHash(reply));
    }

    function testFuzz_replyHash__other_output_plaintext__same_hash(AgentReply memory reply, bytes memory output)
        public
        pure
    {
        bytes32 before = WorkflowHashing.replyHash(reply);
        reply.output = output;
        assertEq(WorkflowHashing.replyHash(reply), before);
    }

    function testFuzz_replyDigest__any_reply__equals_plain(AgentReply memory reply) public pure {
        assertEq(WorkflowHashing.replyDigest(reply), PlainHashing.replyDigest(reply));
    }

    function testFuzz_replyDigest__other_time_and_operation__same_digest(
        AgentReply memory reply,
        uint256 timestamp,
        bytes32 operationId
    ) public pure {
        bytes32 before = WorkflowHashing.replyDigest(reply);
        (reply.timestamp, reply.operationId) = (timestamp, operationId);
        assertEq(WorkflowHashing.replyDigest(reply), before);
    }

    function testFuzz_operationKey__any_scope__equals_plain(bytes32 workflowRunId, address replier, bytes32 operationId)
        public
        pure
    {
        assertEq(
            WorkflowHashing.operationKey(workflowRunId, replier, operationId),
            PlainHashing.operationKey(workflowRunId, replier, operationId)
        );
    }

    function testFuzz_runId__any_run__equals_plain(address sender, uint256 blockNumber, uint256 runNonce) public pure {
        assertEq(
            WorkflowHashing.runId(sender, blockNumber, runNonce), PlainHashing.runId(sender, blockNumber, runNonce)
        );
    }

    function testFuzz_verificationDigest__any_verdict__equals_plain(bytes32[5] memory words, bool valid) public pure {
        assertEq(
            WorkflowHashing.verificationDigest(words[0], words[1], words[2], words[3], valid, words[4]),
            PlainHashing.verificationDigest(words[0], words[1], words[2], words[3], valid, words[4])
        );
    }
}
