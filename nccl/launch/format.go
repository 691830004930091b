package launch

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl"
)

// Format is an output format for a job.
type Format struct {
	Name  string
	About string
	host  func(Job, int) []byte // one text for each host; nil: one text for the whole job
	whole func(Job) []byte
}

// Formats lists all formats, in the order of the help text.
var Formats = []Format{
	{Name: "conf", About: "nccl.conf", host: func(j Job, i int) []byte { return must(nccl.RenderConf(j.Hosts[i].Env)) }},
	{Name: "shell", About: "exports for a shell", host: func(j Job, i int) []byte { return must(nccl.RenderShell(j.Hosts[i].Env)) }},
	{Name: "torchrun", About: "a script for each node", host: torchrun},
	{Name: "docker", About: "options of docker run", host: docker},
	{Name: "mpirun", About: "a script with hostfile and options of Open MPI", whole: mpirun},
	{Name: "slurm", About: "a script for sbatch", whole: slurm},
	{Name: "slurm-prolog", About: "Slurm's TaskProlog", whole: slurmProlog},
	{Name: "kubernetes", About: "pods in the hosts' network", whole: kubernetes},
	{Name: "kubernetes-multus", About: "pods with their own NICs, through Multus and an RDMA device plugin", whole: kubernetesMultus},
}

// Names returns the names of the formats.
func Names() []string {
	out := make([]string, 0, len(Formats))
	for _, f := range Formats {
		out = append(out, f.Name)
	}
	return out
}

// must panics on an error, which Job.check has ruled out.
func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

// Render renders the job. If a format has one text for each host and there are several hosts, a line with
// the host's name precedes each text.
func Render(name string, j Job) ([]byte, error) {
	i := slices.IndexFunc(Formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("-format %s is unknown; the formats are %s", name, strings.Join(Names(), ", "))
	}
	if err := j.check(); err != nil {
		return nil, err
	}
	f := Formats[i]
	j, hidden := j.withoutSensitive()
	if f.whole != nil {
		return noted(f.whole(j), slices.Concat(hidden...)), nil
	}
	var out bytes.Buffer
	for i, h := range j.Hosts {
		if len(j.Hosts) > 1 {
			fmt.Fprintf(&out, "# host %s\n", h.Name)
		}
		out.Write(noted(f.host(j, i), hidden[i]))
	}
	return out.Bytes(), nil
}

// withoutSensitive returns the job without the settings whose values are sensitive, and their names for each host: a
// launcher is printed and copied, and its arguments can be seen by all users of a host.
func (j Job) withoutSensitive() (Job, [][]string) {
	j.Hosts = slices.Clone(j.Hosts)
	hidden := make([][]string, len(j.Hosts))
	for i, h := range j.Hosts {
		j.Hosts[i].Env = nil
		for _, v := range h.Env {
			if !fabric.IsSensitive(v.Value) {
				j.Hosts[i].Env = append(j.Hosts[i].Env, v)
			} else {
				hidden[i] = append(hidden[i], v.Name)
			}
		}
	}
	return j, hidden
}

// noted puts the names of the settings that are left out into a comment, below the line that names the interpreter.
func noted(text []byte, names []string) []byte {
	if names == nil {
		return text
	}
	slices.Sort(names)
	note := "# Left out, because their values are sensitive: " + strings.Join(slices.Compact(names), ", ") + ". An nccl.conf that fabricform writes has them.\n"
	first := 0
	if bytes.HasPrefix(text, []byte("#!")) {
		first = bytes.IndexByte(text, '\n') + 1
	}
	return slices.Concat(text[:first], []byte(note), text[first:])
}
