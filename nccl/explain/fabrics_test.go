package explain

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestFabricsAreExplained: what tests of RDMA, and NCCL's lines about fabrics, say together.
func TestFabricsAreExplained(t *testing.T) {
	const cuda = "ib_write_bw -d mlx5_3 -a --use_cuda=0\nallocated GPU buffer address at 0000002305040000 pointer=0x2305040000\n"
	device := func(i int) string {
		return "[" + string(rune('0'+i%10)) + "]mlx5_" + strings.Repeat("1", i) + ":1/RoCE "
	}
	var many, few string
	for i := 1; i <= 34; i++ {
		many += device(i)
		if i <= 18 {
			few += device(i)
		}
	}
	for _, c := range []struct{ text, says, notSays string }{
		{cuda + "Couldn't allocate MR\n", "error:  GPU memory cannot be registered", "memlock"},
		{"ib_write_bw -d mlx5_3 -a\nCouldn't allocate MR\n", "memlock", ""},
		{"gpu6:1:2 [1] NCCL INFO NET/IB : Using " + many + "; OOB :\n", "warning:  Many devices", ""},
		{"gpu6:1:2 [1] NCCL INFO NET/IB : Using " + few + "; OOB eth0:10.0.0.1<0>\n", "", "Many devices"},
	} {
		got := asText(Explain("a.log", c.text, nil, fabric.Invocation{}))
		if !strings.Contains(got, c.says) || c.notSays != "" && strings.Contains(got, c.notSays) {
			t.Errorf("%s: want %q and not %q, got %s", c.text, c.says, c.notSays, got)
		}
	}
}
