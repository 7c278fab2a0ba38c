// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {AgentReply} from "../interfaces/IAgentWorkflow.sol";

/// @dev Stage of the final task; no real stage has this number (ERC-8301, Terminal stage).
uint8 constant FINAL_STAGE = type(uint8).max;

/// @notice When a stage's gate is evaluated (ERC-8301, Gate Logic and Stage Transition).
enum StageMode {
    Async, // right after onAgentReply
    Sync // only after onAgentProve
}

/// @notice Which ERC-8274 verifier a stage calls (ERC-8301, onAgentProve).
enum VerifierOption {
    None, // the stage takes no proofs
    AgentVerifier, // option A, bound to the replier's identity
    ProofVerifier // option B, stateless
}

/// @notice Proof policy and time policy of one stage; fixed at deployment.
struct StageConfig {
    StageMode mode;
    VerifierOption option;
    address verifier; // zero exactly when option is None
    uint40 window; // seconds that a task of this stage stays open; 0 = no expiry. The initial task uses run()'s.
    bytes metadata; // option B only: circuit key, enclave hash, etc.
}

/// @notice What a gate decides about one reply (ERC-8301, Gate Logic and Stage Transition).
enum Verdict {
    Silent, // no action; the stage stays open
    Pass, // transition to the next stage
    Retry, // dispatch the answered task anew, same stage
    Abort // end the run as Failed
}

/// @notice What a gate is asked about: one reply that has just been anchored (async) or proven (sync).
struct GateInput {
    bytes32 workflowRunId;
    uint8 stage; // stage of the run and of every task the reply answers
    bytes32 taskHash; // primary task: reply.prevTaskHashes[0]
    uint32 taskSeq; // its taskSeq
    bytes32 replyHash;
    AgentReply reply;
}

/// @notice A gate's answer.
struct GateDecision {
    Verdict verdict;
    uint8 nextStage; // on Pass: the next stage, or FINAL_STAGE to complete the run
    bytes32[] triggers; // on Pass and Retry: prevReplyHashes of the new tasks; empty = the judged reply alone
    bytes32[] inputHashes; // on Pass: one task for each; empty = one task over the triggers' outputs
}
