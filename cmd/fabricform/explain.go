package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/explain"
)

// maxExplained limits the input of explain: logs of large jobs have some 100 MiB.
const maxExplained = 1 << 30

func explainCommand(a *app) *cobra.Command {
	var path string
	var asJSON bool
	c := &cobra.Command{
		Use: "explain FILE", Short: "Find mistakes in existing NCCL settings, or in an NCCL log", Args: cobra.ExactArgs(1),
		Long: `Reads an nccl.conf, shell exports and command lines (mpirun, srun, docker run, nccl-tests, perftest,
ip), a log of NCCL_DEBUG=INFO, or the output of nvidia-smi topo -m, and says what is wrong, what it
costs and what to write instead. It connects to no host. If FILE is -, it reads standard input.

The exit code is 1 if there are errors.`,
		Example: "  fabricform explain run.sh\n  fabricform explain -fabric examples/roce-pair.hcl /etc/nccl.conf\n  NCCL_DEBUG=INFO ./all_reduce_perf 2>&1 | fabricform explain -",
		RunE: func(cmd *cobra.Command, args []string) error {
			var f *fabric.Fabric
			var by fabric.Invocation
			if path != "" {
				var err error
				if f, err = a.load(path); err != nil {
					return err
				}
				by = a.invocation(f, path)
			}
			text, err := readExplained(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			report := explain.Explain(args[0], string(text), f, by)
			if asJSON {
				err = a.out.ExplainedJSON(report)
			} else {
				a.out.Explained(args[0], report)
			}
			if err == nil && report.Failed() {
				return exitWith(exitError)
			}
			return err
		},
	}
	a.fabricFlags(c)
	c.Flags().StringVar(&path, "fabric", "", "also compare with this `FABRIC`")
	c.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return c
}

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
	text, err := io.ReadAll(io.LimitReader(in, maxExplained+1))
	if err != nil {
		return nil, fmt.Errorf("read input: %w", err)
	}
	if len(text) > maxExplained {
		return nil, fmt.Errorf("%s is longer than 1 GiB: pass only the part in which NCCL starts", name)
	}
	return text, nil
}
