package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fabricform/fabricform/draft"
	"github.com/fabricform/fabricform/fabric"
)

// maxSlurmNodes bounds the output of scontrol: a node takes about 1 KiB.
const maxSlurmNodes = 64 << 20

// importSlurm writes the hosts in the output of `scontrol show node`, without reading any host.
func (a *app) importSlurm(from, out string) error {
	in := os.Stdin
	if from != "-" {
		f, err := os.Open(from)
		if err != nil {
			return fmt.Errorf("-slurm %s: %w", from, errors.Unwrap(err))
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxSlurmNodes+1))
	if err == nil && len(text) > maxSlurmNodes {
		err = errors.New("it is larger than 64 MiB")
	}
	if err != nil {
		return fmt.Errorf("-slurm %s: %w", from, err)
	}
	hosts, left, err := draft.SlurmNodes(string(text))
	if err != nil {
		return fmt.Errorf("-slurm %s: %w", from, err)
	}
	for _, why := range left {
		a.err.Linef("! left out: %s", why)
	}
	return a.writeImport(&fabric.Fabric{}, out, draft.Input{Fabric: fabricName(out), Hosts: hosts,
		Origin: "The nodes of a Slurm cluster, as `scontrol show node` listed them. Their NICs, links and networks are missing: add them."}, nil)
}
