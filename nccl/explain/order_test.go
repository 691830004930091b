package explain

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestTheReasonComesFirst: whoever reads only the first finding reads the most probable reason, not a remark or an effect.
func TestTheReasonComesFirst(t *testing.T) {
	const (
		closed = "a:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer b<53735>\n"
		proxy  = "a:1:2 [0] proxy.cc:1485 NCCL WARN [Service thread] Error encountered progressing operation=Connect, res=2, closing connection\n"
		remote = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error, NCCL version 2.20.5\n"
	)
	for name, c := range map[string]struct {
		text string
		want []string // the first findings, by summary
	}{
		"an effect that names the peer":        {proxy + closed, []string{"A peer closed the connection", "NCCL's proxy thread failed"}},
		"of NCCL's code":                       {remote + closed, []string{"A peer closed the connection", "A remote rank failed"}},
		"only one of them":                     {proxy, []string{"NCCL's proxy thread failed"}},
		"a watchdog that saw an error":         {"[rank5]:[E207 19:37:09.9 ProcessGroupNCCL.cpp:681] [Rank 5] Some NCCL operations have failed or timed out.\n" + closed, []string{"A peer closed the connection", "PyTorch's watchdog stopped the job"}},
		"what helped before a class of causes": {"RuntimeError: NCCL Error 2: unhandled system error\n\nWith --ipc=host it works.\n", []string{"/dev/shm is too small", "NCCL reports a system error"}},
		"an error before a setting":            {"$ NCCL_SHM_DISABLED=1 mpirun -np 2 -H a,b ./all_reduce_perf\nssh: connect to host b port 22: Connection refused\n", []string{"A host does not answer SSH"}},
		"a hang before a setting":              {"NCCL hangs with 2 GPUs of one server.\nexport NCCL_NET_GDR_LEVEL=5\n", []string{"The job hangs without an error", "Number instead of a level"}},
		"what is known of a hang":              {"The training hangs on two GPUs.\nUnidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n     0 800.00  13.20\n     1  13.20 800.00\nUnidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1\n     0 800.00   1.60\n     1   1.60 800.00\n", []string{"Direct access between GPUs is slower than through the host", "The job hangs without an error"}},
		"devices that EFA does not have":       {"EFA on two p6-b300:\nNET/IB: Got completion from peer with status=IBV_WC_REM_ACCESS_ERR(10)\n", []string{"NCCL uses RDMA devices beside EFA"}},
		"a setting keeps no rate back":         {"NCCL over RoCE is slow between two nodes: 3 GB/s\nexport NCCL_IB_DISABLE=0\n", []string{"NCCL is slower than expected", "Equal to NCCL's default"}},
		"a comparison without GPUDirect RDMA":  {"NCCL over RoCE: GDR is on, but the rate is not really different from cases without gdr\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Explain("notes.txt", c.text, nil, fabric.Invocation{}).Findings {
				got = append(got, f.Summary)
			}
			if c.want == nil && len(got) > 0 || len(got) < len(c.want) || strings.Join(got[:len(c.want)], "; ") != strings.Join(c.want, "; ") {
				t.Errorf("findings are %q, want first %q", got, c.want)
			}
		})
	}
}
