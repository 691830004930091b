package perftest

import "fmt"

// Statuses of a completion (enum ibv_wc_status in rdma-core's libibverbs/verbs.h).
const (
	locProtErr     = 4
	flushErr       = 5
	remInvReqErr   = 9
	remAccessErr   = 10
	remOpErr       = 11
	retryExcErr    = 12
	rnrRetryExcErr = 13
)

// statusNames are libibverbs' names, without IBV_WC_.
var statusNames = []string{
	"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "MW_BIND_ERR",
	"BAD_RESP_ERR", "LOC_ACCESS_ERR",
	"REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",
	"REM_INV_RD_REQ_ERR", "REM_ABORT_ERR",
	"INV_EECN_ERR", "INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR",
}

func statusFailure(e *end, status int) Failure {
	f := Failure{Side: e.side, Cause: CompletionError}
	name := fmt.Sprintf("status %d", status)
	if status < len(statusNames) {
		name = fmt.Sprintf("%s (%d)", statusNames[status], status)
	}
	switch status {
	case retryExcErr:
		f.Cause = RetriesExceeded
		f.Sentence = fmt.Sprintf("the %s used up its retries, because the %s acknowledged nothing: %s", e.side, e.other(), name)
		f.Cure = "allow UDP port 4791 on the network between them (with Soft-RoCE in the hosts' firewalls, too), " +
			"and compare both ends' MTU: " +
			"a frame larger than the path's MTU is dropped silently"
	case rnrRetryExcErr:
		f.Cause = ReceiverNotReady
		f.Sentence = fmt.Sprintf("the %s sent to a queue of the %s that had no receive buffers: %s", e.side, e.other(), name)
		f.Cure = "check that the other end's program still runs and gets enough CPU time"
	case remAccessErr, remInvReqErr, remOpErr, locProtErr:
		f.Cause = AccessRefused
		f.Sentence = fmt.Sprintf("a memory access of the %s was refused: %s", e.side, name)
		f.Cure = "install the same release of perftest and of the RDMA drivers on both hosts"
	case flushErr:
		f.Sentence = fmt.Sprintf("the %s's queue pair was in error before its request was sent: %s", e.side, name)
		f.Cure = "look for the first error at the other end and in both kernels' logs"
	default:
		f.Sentence = fmt.Sprintf("a request of the %s ended in an error: %s", e.side, name)
		f.Cure = "check both kernels' logs, and compare drivers and firmware"
	}
	return f
}
