package nccl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl/env"
)

// Setting is one environment variable and the reason for its value.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Reason string `json:"reason"`
}

// Env is one host's settings, in the order in which they are rendered.
type Env []Setting

// Get returns the value of a variable, and whether it is set.
func (e Env) Get(name string) (string, bool) {
	for _, s := range e {
		if s.Name == name {
			return s.Value, true
		}
	}
	return "", false
}

// Problem keeps a host's settings from working.
type Problem struct {
	Of   Concern
	NIC  string // the NIC with the wrong GID
	Text string
}

func (p Problem) String() string { return p.Text }

// Concern says what a problem is about, if callers decide by it; "" otherwise.
type Concern string

// The concerns.
const (
	WrongGID        Concern = "gid"
	SocketInterface Concern = "socket interface"
)

func problems(of Concern, texts []string) (out []Problem) {
	for _, text := range texts {
		out = append(out, Problem{Of: of, Text: text})
	}
	return out
}

// Derive returns the host's settings, and the problems that keep them from working.
func Derive(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) (Env, []Problem) {
	ports, at := Ports(f, h, snap), Version(f, h, snap)
	out, all := transport(f, h, ports, at)
	s, wrong := socketIfname(f, h, snap)
	if s.Name != "" {
		out = append(out, s)
	}
	shape, more := layout(f, h, ports, at)
	rdma := UsesRDMA(out)
	for _, s := range shape {
		if rdma || s.Name == "NCCL_CROSS_NIC" { // the only one that also applies to sockets
			out = append(out, s)
		}
	}
	if rdma {
		out = append(out, classSettings(f.ForCollectives(h))...)
		out = append(out, patience(f, h, at)...)
		all = append(all, problems("", more)...)
		all = append(all, problems("", crosses(f, h, out))...)
	}
	out = declared(out, f, h)
	return out, slices.Concat(all, problems(SocketInterface, wrong), problems("", unread(f, h, at)))
}

// UsesRDMA reports whether the settings leave RDMA enabled.
func UsesRDMA(e Env) bool {
	v, _ := e.Get("NCCL_IB_DISABLE")
	return env.ParseNumber(v).Value == 0
}

// Version returns the version of NCCL on the host: the declared one, or else the oldest that is installed.
// It returns the zero value if neither is known.
func Version(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) (at env.Version) {
	if v, err := env.ParseVersion(f.NCCLOf(h).Version); err == nil {
		return v
	}
	for _, l := range snap.NCCL {
		if v, err := env.ParseVersion(l.Version); err == nil && (!at.Known() || v.Before(at)) {
			at = v
		}
	}
	return at
}

// unread reports declared variables that the NCCL installed on the host does not read. If the files
// declare a version, package config has reported them already.
func unread(f *fabric.Fabric, h *fabric.Host, at env.Version) (out []string) {
	n := f.NCCLOf(h)
	for name := range n.Env {
		if v := env.Lookup(name); n.Version == "" && at.Known() && v != nil && (at.Before(v.First) || v.Last.Known() && v.Last.Before(at)) {
			out = append(out, fmt.Sprintf("nccl.env sets %s, which NCCL %s on this host does not read", name, at))
		}
	}
	slices.Sort(out)
	return out
}

func transport(f *fabric.Fabric, h *fabric.Host, ports []Port, at env.Version) (Env, []Problem) {
	kind := f.NCCLOf(h).Transport
	if kind == "socket" {
		return Env{{"NCCL_IB_DISABLE", "1", "transport = \"socket\" is declared"}}, nil
	}
	var hcas []string
	var all []Problem
	var used []Port
	for _, p := range ports {
		switch {
		case p.HCA != "":
			name := p.HCA
			if p.several {
				name = fmt.Sprintf("%s:%d", p.HCA, p.Number)
			}
			if !slices.Contains(hcas, name) {
				hcas, used = append(hcas, name), append(used, p)
			}
			if p.Wrong != "" {
				all = append(all, Problem{WrongGID, p.NIC, fmt.Sprintf("%s (%s): %s", p.NIC, p.HCA, p.Wrong)})
			}
		case kind == "ib":
			all = append(all, Problem{Text: fmt.Sprintf("%s: transport = \"ib\" is declared, but %s", p.NIC, p.Why)})
		}
	}
	if len(ports) == 0 && kind == "" {
		return Env{{"NCCL_IB_DISABLE", "1", "no NIC of this host is meant for collectives, so NCCL must not use the fabric's NICs"}}, all
	}
	if len(hcas) == 0 {
		return Env{{"NCCL_IB_DISABLE", "1", "no usable RDMA device on the fabric's NICs: NCCL uses sockets"}}, all
	}
	out := Env{{"NCCL_IB_HCA", "=" + strings.Join(hcas, ","),
		"the fabric's NICs by exact name: without =, mlx5_1 would also match mlx5_10"}}
	gid, wrong := gidSettings(used, at)
	return append(out, gid...), append(all, problems("", wrong)...)
}

// declared overrides derived settings with nccl.env. The host's block overrides the fabric's.
func declared(out Env, f *fabric.Fabric, h *fabric.Host) Env {
	merged := f.NCCLOf(h).Env
	for i := range out {
		if v, ok := merged[out[i].Name]; ok {
			instead := ""
			if out[i].Value != v {
				instead = ", instead of " + out[i].Value
			}
			out[i].Value, out[i].Reason = v, "declared in nccl.env"+instead
			delete(merged, out[i].Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		out = append(out, Setting{name, merged[name], "declared in nccl.env"})
	}
	return out
}
