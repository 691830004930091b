package launch

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl"
)

// script collects lines.
type script struct{ bytes.Buffer }

func (s *script) line(format string, a ...any) { fmt.Fprintf(&s.Buffer, format+"\n", a...) }

// masterPort is torchrun's default; 29500/tcp must be open on the first host.
const masterPort = 29500

func torchrun(j Job, i int) []byte {
	var s script
	h := j.Hosts[i]
	s.line("#!/bin/sh")
	s.line("# Node %d of %d: sh FILE train.py …", i, len(j.Hosts))
	s.Write(must(nccl.RenderShell(slices.Concat(h.Env, h.torch()))))
	each := "gpu" // one rank for each GPU
	if h.GPUs > 0 {
		each = fmt.Sprint(h.GPUs)
	}
	s.line(`exec torchrun --nnodes=%d --node-rank=%d --nproc-per-node=%s --master-addr=%s --master-port=%d "$@"`, len(j.Hosts), i, each, nccl.Quote(j.master()), masterPort)
	return s.Bytes()
}

// docker renders a script for Docker and Podman, which accept the same options but that for GPUs: Podman before 5 ignores
// --gpus, and Docker before 25 has no names of CDI (NVIDIA's Container Toolkit, "Support for Container Device Interface").
func docker(j Job, i int) []byte {
	var s script
	h := j.Hosts[i]
	s.line("#!/bin/sh")
	s.line("# sh FILE IMAGE COMMAND …; with Podman: DOCKER=podman sh FILE IMAGE COMMAND …")
	s.line(`# The host's network, shared memory and devices; unlimited locked memory for RDMA; SELinux labels are off, because they hide devices.`)
	options := []string{"--rm", "--network=host", "--ipc=host", "--ulimit", "memlock=-1:-1", "--cap-add=IPC_LOCK", "--security-opt=label=disable"}
	if h.RDMA {
		options = append(options, "--device=/dev/infiniband")
	}
	settings := h.torch()
	if h.File != "" {
		s.line("# NCCL reads /etc/nccl.conf in the container, not on the host.")
		options = append(options, "--mount", nccl.Quote("type=bind,source="+h.File+",target=/etc/nccl.conf,readonly"))
	} else {
		settings = slices.Concat(h.Env, settings)
	}
	for _, v := range settings {
		s.line("%s", nccl.Comment(v.Name+": "+v.Reason))
		options = append(options, "-e", nccl.Quote(v.Name+"="+v.Value))
	}
	if h.GPUs > 0 {
		s.line(`case $("${DOCKER:-docker}" --version) in podman*) gpus=--device=nvidia.com/gpu=all ;; *) gpus=--gpus=all ;; esac`)
		options = append(options, `"$gpus"`)
	}
	s.line(`exec "${DOCKER:-docker}" run %s "$@"`, strings.Join(options, " "))
	return s.Bytes()
}

// wrapper returns an sh program that sets the variables that differ per host and then executes its
// arguments; "" if no variable differs.
func (j Job) wrapper(rest []nccl.Env) string {
	var s script
	any := false
	s.line(`case "$(uname -n)" in`)
	for i, h := range j.Hosts {
		s.line("%s|%s.*)", nccl.Quote(h.Hostname), nccl.Quote(h.Hostname))
		for _, v := range rest[i] {
			any = true
			s.line("  export %s=%s", v.Name, nccl.Quote(v.Value))
		}
		s.line("  ;;")
	}
	s.line(`*) echo "no NCCL settings for $(uname -n)" >&2; exit 1 ;;`)
	s.line("esac")
	s.WriteString(`exec "$@"`)
	if !any {
		return ""
	}
	return s.String()
}
