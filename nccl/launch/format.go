package launch

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
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

	check  func(Job) error // refuses what the format cannot express; nil: nothing
	gpus   bool            // it starts a rank for each GPU that was found, and asks for these GPUs
	secret string          // where sensitive values come from, which are left out; "": from nccl.conf
}

// Formats lists all formats, in the order of the help text.
var Formats = []Format{
	{Name: "conf", About: "nccl.conf", host: func(j Job, i int) []byte { return must(nccl.RenderConf(j.Hosts[i].Env)) }},
	{Name: "shell", About: "exports for a shell", host: func(j Job, i int) []byte {
		return must(nccl.RenderShell(slices.Concat(j.Hosts[i].Env, j.Hosts[i].torch())))
	}},
	{Name: "torchrun", About: "a script for each node", host: torchrun},
	{Name: "docker", About: "a script for each host that starts a container with Docker or Podman", host: docker, gpus: true},
	{Name: "mpirun", About: "a script for Open MPI, over SSH", whole: mpirun, gpus: true},
	{Name: "hydra", About: "a script for MPICH, over SSH", whole: hydra, gpus: true},
	{Name: "slurm", About: "a script for sbatch", whole: slurm, gpus: true},
	{Name: "slurm-prolog", About: "Slurm's TaskProlog", whole: slurmProlog},
	{Name: "kubernetes", About: "pods in the hosts' network", whole: kubernetes, gpus: true, check: checkPods, secret: secret},
	{Name: "kubernetes-multus", About: "pods with the fabric's NICs: Multus and the RDMA shared device plugin", whole: kubernetesMultus, gpus: true, check: checkMultus, secret: secret},
	{Name: "pytorchjob", About: "a PyTorchJob of Kubeflow in the hosts' network", whole: pytorchJob, gpus: true, check: checkKubeflow, secret: secret},
	{Name: "mpijob", About: "an MPIJob of Kubeflow in the hosts' network", whole: mpiJob, gpus: true, check: checkKubeflow, secret: secret},
}

// WithoutGPUs names the hosts of a job on which no GPU was found, although a text of this format depends on their number; nil for another format.
func WithoutGPUs(format string, j Job) (names []string) {
	f := slices.IndexFunc(Formats, func(f Format) bool { return f.Name == format })
	if f < 0 || !Formats[f].gpus {
		return nil
	}
	for _, h := range j.Hosts {
		if h.GPUs == 0 {
			names = append(names, h.Name)
		}
	}
	return names
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

// File is one rendered text.
type File struct {
	Name   string // name of a file for it, without a folder
	Text   []byte
	Script bool // the first line names the interpreter
}

// Mark begins the line that says what rendered a file: the first line, or the second of a script.
const Mark = "# fabricform render nccl -format "

// Render renders the job: one file for each host, or one for all of them.
func Render(name string, j Job) ([]File, error) {
	i := slices.IndexFunc(Formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("-format %s is unknown; the formats are %s", name, strings.Join(Names(), ", "))
	}
	if err := j.check(); err != nil {
		return nil, err
	}
	f := Formats[i]
	if f.check != nil {
		if err := f.check(j); err != nil {
			return nil, fmt.Errorf("-format %s: %w", name, err)
		}
	}
	j, hidden := j.withoutSensitive()
	if f.whole != nil {
		file, err := f.file(j.Fabric, "fabric "+j.Fabric, f.whole(j), slices.Concat(hidden...))
		return []File{file}, err
	}
	var out []File
	for i, h := range j.Hosts {
		file, err := f.file(h.Name, fmt.Sprintf("host %s of fabric %s", h.Name, j.Fabric), f.host(j, i), hidden[i])
		if err != nil {
			return nil, err
		}
		out = append(out, file)
	}
	return out, nil
}

// file returns the text as a file, with notes below the line that names the interpreter: what rendered it, and the
// settings that are left out.
func (f Format) file(who, of string, text []byte, hidden []string) (File, error) {
	out := File{Script: bytes.HasPrefix(text, []byte("#!"))}
	switch {
	case f.Name == "conf":
		out.Name = who + ".nccl.conf"
	case f.Name == "shell" || out.Script:
		out.Name = who + "." + f.Name + ".sh"
	default:
		out.Name = who + "." + f.Name + ".yaml"
	}
	if !filepath.IsLocal(out.Name) || filepath.Base(out.Name) != out.Name {
		return File{}, fmt.Errorf("%q cannot be the name of a file", out.Name)
	}
	first := 0
	if out.Script {
		first = bytes.IndexByte(text, '\n') + 1
	}
	note := Mark + f.Name + ", " + of + "\n"
	if hidden != nil {
		slices.Sort(hidden)
		note += "# Left out, because their values are sensitive: " + strings.Join(slices.Compact(hidden), ", ") + ". " + cmp.Or(f.secret, "If fabricform writes nccl.conf, it contains them.") + "\n"
	}
	out.Text = slices.Concat(text[:first], []byte(note), text[first:])
	return out, nil
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
