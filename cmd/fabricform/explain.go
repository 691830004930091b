package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/explain"
)

func explainCommand(a *app) *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "explain FILE …", Short: "Find mistakes in existing NCCL settings, or in an NCCL log", Args: cobra.MinimumNArgs(1),
		Long: `Reads NCCL settings and says what is wrong with them, what it costs and what to write instead. It
understands nccl.conf, shell scripts and command lines (mpirun, srun, docker run, nccl-tests, perftest,
ip), environment dumps, env of Kubernetes, compose, JSON and Dockerfiles, os.environ of Python, logs of
NCCL_DEBUG, the output of show_gids, ibdev2netdev, ibv_devinfo, ibstat, ibstatus, ncclras and
nvidia-smi topo -m, and the file that NCCL_TOPO_DUMP_FILE names. One file may hold several of these. It
also says what it read, and which lines it did not understand. It connects to no host. If FILE is -, it
reads standard input. Several files are read one by one. To have the logs of one job judged together,
pass them as one: cat rank*.log | fabricform explain -

The exit code is 1 if there are errors, or if nothing of NCCL was read in a file.`,
		Example: "  fabricform explain run.sh job.log\n" +
			"  fabricform explain -fabric examples/roce-pair.hcl /etc/nccl.conf\n" +
			"  NCCL_DEBUG=INFO ./all_reduce_perf 2>&1 | fabricform explain -",
		RunE: func(cmd *cobra.Command, args []string) error {
			defer endAtOnce(cmd.Context())()
			var f *fabric.Fabric
			var by fabric.Invocation
			if path != "" {
				var err error
				if f, err = a.load(path); err != nil {
					return err
				}
				by = a.invocation(f, path)
			}
			var end error
			for i, name := range args {
				text, err := readExplained(cmd.InOrStdin(), name)
				if err != nil {
					a.err.Errorf("%s", err)
					end = exitWith(exitError)
					continue
				}
				report := explain.Explain(name, string(text), f, by)
				if a.asJSON {
					if err := a.out.ExplanationJSON(name, report); err != nil {
						return err
					}
				} else {
					if i > 0 {
						a.out.Linef("")
					}
					a.out.Explanation(name, report)
				}
				if report.Failed() {
					end = exitWith(exitError)
				}
			}
			return end
		},
	}
	a.fabricFlags(c)
	c.Flags().StringVar(&path, "fabric", "", "also compare with this `FABRIC`")
	a.jsonFlag(c, "print the findings as JSON")
	return c
}

// readExplained reads a file, or standard input for "-".
func readExplained(stdin io.Reader, name string) ([]byte, error) {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read input: %w", err)
		}
		defer file.Close()
		in = file
	}
	text, err := explain.ReadInput(name, in)
	if errors.Is(err, syscall.EISDIR) {
		return nil, fmt.Errorf("%s is a directory: name the files in it, such as %s", name, filepath.Join(name, "*.log"))
	}
	return text, err
}
