package facts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTopologyIsReadFromNvidiaSMI(t *testing.T) {
	for file, want := range map[string]string{
		"handmade-550-four-gpus": "GPU0 mlx5_0 PIX; GPU1 mlx5_1 PIX; GPU2 mlx5_3 PIX; GPU3 mlx5_2 PIX",
		"handmade-470-two-gpus":  "GPU0 mlx5_0 PIX; GPU1 mlx5_1 PXB",
		"handmade-spark":         "GPU0 rocep1s0f0,roceP2p1s0f0 NODE",
	} {
		raw, err := os.ReadFile("testdata/topo/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		topology, err := ParseTopology(string(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := nearestOf(topology); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
	if _, err := ParseTopology("mlx5_0 port 1 ==> eth0 (Up)\n"); err == nil {
		t.Error("another program's output is a topology")
	}
}

func nearestOf(t Topology) string {
	var out []string
	for _, g := range t.GPUs {
		devices, distance := t.Nearest(g, t.Devices)
		out = append(out, g+" "+strings.Join(devices, ",")+" "+distance)
	}
	return strings.Join(out, "; ")
}

func TestDistanceFollowsThePCITree(t *testing.T) {
	const root, sw = "pci0000:00/0000:00:01.0", "pci0000:00/0000:00:01.0/0000:01:00.0"
	gpu := Slot{Path: sw + "/0000:02:00.0/0000:03:00.0"}
	for to, want := range map[Slot]string{
		{Path: sw + "/0000:02:00.0/0000:03:00.1"}:                DistancePIX, // another function
		{Path: sw + "/0000:02:01.0/0000:04:00.0"}:                DistancePIX, // another port of the switch
		{Path: root + "/0000:01:00.1/0000:05:00.0/0000:06:00.0"}: DistancePXB,
		{Path: "pci0000:00/0000:00:02.0/0000:07:00.0"}:           DistancePHB,
		{Path: "pci0000:40/0000:40:01.0/0000:41:00.0"}:           DistanceNode,
		{Path: "pci0000:80/0000:80:01.0/0000:81:00.0", NUMA: 1}:  DistanceSys,
		{Path: "pci0000:80/0000:80:01.0/0000:81:00.0", NUMA: -1}: DistanceSys,
		{}: "",
	} {
		if got := gpu.Distance(to); got != want {
			t.Errorf("%+v: %s, want %s", to, got, want)
		}
		if got := to.Distance(gpu); got != want {
			t.Errorf("from %+v: %s, want %s", to, got, want)
		}
	}
}

// machine lays the parts of sysfs and procfs that name GPUs, RDMA devices and NCCL.
func machine(t *testing.T) tree {
	t.Helper()
	root := t.TempDir()
	link := func(at, to string) {
		at = filepath.Join(root, at)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	write := func(at, text string) {
		at = filepath.Join(root, at)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i, pci := range []string{"0000:1b:00.0", "0000:9d:00.0"} {
		device := "devices/pci0000:" + []string{"15/0000:15:01.0/", "97/0000:97:01.0/"}[i] + pci
		write("sys/"+device+"/numa_node", []string{"0\n", "1\n"}[i])
		link("sys/bus/pci/devices/"+pci, "../../../"+device)
		write("proc/driver/nvidia/gpus/"+pci+"/information", "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 100\n")
	}
	nic := "devices/pci0000:15/0000:15:02.0/0000:16:00.0"
	write("sys/"+nic+"/numa_node", "0\n")
	link("sys/bus/pci/devices/0000:16:00.0", "../../../"+nic)
	write("sys/"+nic+"/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n")
	link("sys/class/infiniband/mlx5_0", "../../"+nic+"/infiniband/mlx5_0")
	write("sys/module/nvidia/version", "550.90.07\n")
	link("usr/lib/x86_64-linux-gnu/libnccl.so.2", "libnccl.so.2.21.5")
	write("usr/local/lib/python3.12/dist-packages/nvidia_nccl_cu12-2.27.5.dist-info/METADATA", "")
	return tree{root: root}
}

func TestGPUsNICsAndNCCLAreFound(t *testing.T) {
	r := machine(t)
	devices, err := rdma(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	s := &Snapshot{GPUs: gpus(t.Context(), r), RDMA: devices, NCCL: nccl(t.Context(), r)}
	if d := cmp.Diff(Topology{GPUs: []string{"GPU0", "GPU1"}, Devices: []string{"mlx5_0"},
		From: map[string]map[string]string{"GPU0": {"mlx5_0": "PHB"}, "GPU1": {"mlx5_0": "SYS"}}}, s.Topology()); d != "" {
		t.Error(d)
	}
	if s.GPUs[1].Model != "NVIDIA H100 80GB HBM3" || s.GPUs[1].Slot.PCI() != "0000:9d:00.0" || s.GPUs[1].Slot.NUMA != 1 {
		t.Errorf("%+v", s.GPUs)
	}
	if len(s.NCCL) != 2 || s.NCCL[0].Version != "2.21.5" || s.NCCL[1].Version != "2.27.5" {
		t.Errorf("%+v", s.NCCL)
	}
	if none := (tree{root: t.TempDir()}); gpus(t.Context(), none) != nil || nccl(t.Context(), none) != nil {
		t.Error("a host without GPUs has some")
	}
}

func FuzzTopology(f *testing.F) {
	files, err := filepath.Glob("testdata/topo/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(raw))
	}
	f.Fuzz(func(t *testing.T, s string) {
		topology, err := ParseTopology(s)
		if err != nil {
			return
		}
		for _, g := range topology.GPUs {
			for device := range topology.From[g] {
				if strings.HasPrefix(device, "GPU") {
					t.Fatalf("%q is a NIC", device)
				}
			}
			topology.Nearest(g, topology.Devices)
		}
	})
}
