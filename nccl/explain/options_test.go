package explain

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestOptionsInVariables: scripts keep a launcher's options in a variable, over several lines or as an array.
func TestOptionsInVariables(t *testing.T) {
	const port = "error:  Not a TCP port"
	for name, c := range map[string]struct{ text, says, notSays string }{
		"over several lines":     {"ARGS=\"\n    --nnodes 2 \\\n    --node_rank $R \\\n    --master_port 69000\n\"\ntorchrun $ARGS a.py\n", port, ""},
		"in one line":            {"ARGS=\"--nnodes 2 --master_port 69000\"\ntorchrun ${ARGS} a.py\n", port, ""},
		"an array":               {"ARGS=(\n    --nnodes 2\n    # the port\n    --master_port 69000\n)\ntorchrun \"${ARGS[@]}\" a.py\n", port, ""},
		"an array that grows":    {"ARGS=(\n    --nnodes 2\n)\nARGS+=(\n    --master_port 69000\n)\ntorchrun ${ARGS[@]} a.py\n", port, ""},
		"of another launcher":    {"ARGS=\"\n    --master_port 69000\n\"\necho $ARGS\n", "", port},
		"another variable":       {"ARGS=\"\n    --master_port 69000\n\"\ntorchrun --nnodes 2 $OTHER a.py\n", "", port},
		"two hosts":              {"ARGS=\"\n    --nnodes 2\n    --node-rank 0\n    --master-addr 192.0.2.1\n\"\ntorchrun $ARGS a.py\n\nARGS=\"\n    --nnodes 2\n    --node-rank 1\n    --master-addr 192.0.2.1\n\"\ntorchrun $ARGS a.py\n", "commands", "Hosts"},
		"two hosts that differ":  {"ARGS=\"\n    --nnodes 2\n    --node-rank 0\n    --master-addr 192.0.2.2\n\"\ntorchrun $ARGS a.py\n\nARGS=\"\n    --nnodes 2\n    --node-rank 1\n    --master-addr 192.0.2.1\n\"\ntorchrun $ARGS a.py\n", "error:  Hosts meet at different places", ""},
		"prose":                  {"NAME=\"\nThe value is empty.\n\"\ntorchrun --nnodes 2 --master_port 69000 $NAME a.py\n", port, ""},
		"no end":                 {"ARGS=(\n    --nnodes 2\n    --master_port 69000\ntorchrun ${ARGS[@]} a.py\n", "", port},
		"its line":               {"ARGS=\"\n    --rdzv_id=1--rdzv_backend=c10d\n\"\ntorchrun $ARGS a.py\n", "line 2: error:  A blank is missing", ""},
		"lines after it":         {"ARGS=(\n    --nnodes 2\n)\nexport NCCL_FOO_BAR=1\n", "line 4: ", ""},
		"a list over two lines":  {"export NCCL_IB_HCA=\"mlx5_0,\nmlx5_1\"\nexport NCCL_FOO_BAR=1\n", "line 1: error: NCCL_IB_HCA A line break in a list", "not_understood"},
		"lines after such a one": {"export NCCL_IB_HCA=\"mlx5_0,\nmlx5_1\"\nexport NCCL_FOO_BAR=1\n", "line 3: ", ""},
		"a quote without an end": {"export NCCL_IB_HCA=\"mlx5_0,\nmlx5_1\nexport NCCL_DEBUG=INFO\n", "not_understood 1: 1", "A line break"},
		"of another program":     {"export LIST=\"a,\nb\"\n", "", "A line break"},
	} {
		if got := asText(Explain("a.sh", c.text, nil, fabric.Invocation{})); !strings.Contains(got, c.says) || c.notSays != "" && strings.Contains(got, c.notSays) {
			t.Errorf("%s: want %q and not %q:\n%s", name, c.says, c.notSays, got)
		}
	}
	var long strings.Builder // an array that holds another one: what variables stand for has a limit
	for range 3000 {
		long.WriteString("A=(\n-x $A\n)\nrun $A $A $A\n")
	}
	Explain("a.sh", long.String(), nil, fabric.Invocation{})
}
