package facts

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// GPU is one GPU of NVIDIA's driver. Index follows the order of PCI addresses, as in nvidia-smi.
type GPU struct {
	Index int    `json:"index"`
	Model string `json:"model,omitempty"`
	Slot  Slot   `json:"slot,omitzero"`
}

// Library is an installed NCCL.
type Library struct {
	Version string `json:"version"`
	Path    string `json:"path"`
}

// procGPUs is the folder in which the driver lists its GPUs by PCI address.
const procGPUs = "/proc/driver/nvidia/gpus"

// ReadNCCL reads the GPUs, their driver, and the installed NCCL.
func (s *Snapshot) ReadNCCL(ctx context.Context, r host.Reader) {
	s.GPUs, s.GPUDriver, s.NCCL = gpus(ctx, r), host.Text(ctx, r, "/sys/module/nvidia/version"), nccl(ctx, r)
}

// gpus returns the GPUs of NVIDIA's driver; none if it is not loaded.
func gpus(ctx context.Context, r host.Reader) (out []GPU) {
	names, err := r.ReadDir(ctx, procGPUs)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	for i, pci := range names {
		g := GPU{Index: i, Slot: slot(ctx, r, "/sys/bus/pci/devices/"+pci, "")}
		for line := range strings.Lines(host.Text(ctx, r, path.Join(procGPUs, pci, "information"))) {
			if v, ok := strings.CutPrefix(line, "Model:"); ok {
				g.Model = strings.TrimSpace(v)
			}
		}
		out = append(out, g)
	}
	return out
}

// libraryFolders are the folders into which packages and NVIDIA's archives install libnccl.so.2.
var libraryFolders = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib",
	"/usr/local/lib64", "/usr/local/cuda/lib64", "/usr/local/nccl/lib", "/opt/nvidia/nccl/lib"}

// nccl finds installed NCCLs by file names alone: the target of libnccl.so.2 has the version in its name, and so does
// the folder that pip creates (nvidia_nccl_cu12-2.27.5.dist-info). It does not find the NCCLs of containers and
// virtual environments.
func nccl(ctx context.Context, r host.Reader) (out []Library) {
	for _, dir := range libraryFolders {
		to, err := r.Readlink(ctx, dir+"/libnccl.so.2")
		if err != nil {
			continue
		}
		if v, ok := strings.CutPrefix(path.Base(to), "libnccl.so."); ok {
			out = append(out, Library{Version: v, Path: dir + "/libnccl.so.2"})
		}
	}
	for _, lib := range []string{"/usr/local/lib", "/usr/lib"} {
		pythons, err := r.ReadDir(ctx, lib)
		if err != nil {
			continue
		}
		for _, python := range pythons {
			if strings.HasPrefix(python, "python3") {
				out = append(out, wheels(ctx, r, path.Join(lib, python, "dist-packages"))...)
				out = append(out, wheels(ctx, r, path.Join(lib, python, "site-packages"))...)
			}
		}
	}
	return out
}

func wheels(ctx context.Context, r host.Reader, dir string) (out []Library) {
	names, err := r.ReadDir(ctx, dir)
	if err != nil {
		return nil
	}
	for _, n := range names {
		wheel, isInfo := strings.CutSuffix(n, ".dist-info")
		if _, v, found := strings.Cut(wheel, "-"); found && isInfo && strings.HasPrefix(wheel, "nvidia_nccl_cu") {
			out = append(out, Library{Version: v, Path: path.Join(dir, "nvidia", "nccl")})
		}
	}
	return out
}
