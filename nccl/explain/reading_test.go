package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestSettingsOfEveryForm: one setting of NCCL in each form that launchers and programs have for it, by its line. The
// value is wrong everywhere, so that a finding shows that it was read.
func TestSettingsOfEveryForm(t *testing.T) {
	for _, c := range []struct {
		name, text string
		line       int
	}{
		{"pod.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - env:\n    - name: NCCL_IB_DISABLE\n      value: \"yes\"\n", 6},
		{"pod.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - env:\n    - {name: NCCL_IB_DISABLE, value: 'yes'}\n", 6},
		{"cm.yaml", "apiVersion: v1\nkind: ConfigMap\ndata:\n  NCCL_IB_DISABLE: yes # off\n", 4},
		{"mpijob.yaml", "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\ncommand:\n- mpirun\n- -x\n- NCCL_IB_DISABLE=yes\n", 6},
		{"job.yaml", "apiVersion: v1\nkind: Pod\nargs:\n- |\n  export NCCL_IB_DISABLE=yes\n  torchrun train.py\n", 5},
		{"docker-compose.yml", "services:\n  a:\n    environment:\n      - NCCL_IB_DISABLE=yes\n", 4},
		{"docker-compose.yml", "services:\n  a:\n    environment:\n      - \"NCCL_IB_DISABLE=yes\"\n", 4},
		{"docker-compose.yml", "services:\n  a:\n    environment:\n      NCCL_IB_DISABLE: yes\n", 4},
		{"launch.json", "{\"configurations\": [{\n\"env\": {\"A\": \"b\", \"NCCL_IB_DISABLE\": \"yes\"}}]}\n", 2},
		{"task.json", "{\"env\": [\n{\"name\": \"NCCL_IB_DISABLE\", \"value\": \"yes\"}]}\n", 2},
		{"task.json", "{\"env\": [\n{\"name\": \"NCCL_IB_DISABLE\",\n\"value\": \"yes\"}]}\n", 2},
		{"a.py", "import os\nos.environ[\"NCCL_IB_DISABLE\"] = \"yes\"\n", 2},
		{"a.py", "import os\nos.environ['NCCL_IB_DISABLE']='yes'\n", 2},
		{"a.py", "import os\nos.environ.setdefault(\"NCCL_IB_DISABLE\", \"yes\")\n", 2},
		{"a.py", "import os\nos.environ.update({'NCCL_IB_DISABLE': 'yes'})\n", 2},
		{"a.py", "import os\nenv = dict(os.environ, NCCL_IB_DISABLE=\"yes\")\n", 2},
		{"Dockerfile", "FROM a\nENV NCCL_IB_DISABLE=yes A=b\n", 2},
		{"Dockerfile", "FROM a\nENV NCCL_IB_DISABLE yes\n", 2},
		{"job.sbatch", "#!/bin/bash\n#SBATCH --export=ALL,NCCL_IB_DISABLE=yes\n", 2},
		{"x", "srun --export ALL,NCCL_IB_DISABLE=yes ./a\n", 1},
		{"a.ipynb", "{\"source\": [\n\"os.environ[\\\"NCCL_IB_DISABLE\\\"] = \\\"yes\\\"\\n\"]}\n", 2},
		{"x", "srun --export=ALL,NCCL_IB_DISABLE=yes ./a\n", 1},
		{"x", "mpirun -np 2 -x NCCL_IB_DISABLE=yes ./a\n", 1},
		{"x", "docker run -e NCCL_IB_DISABLE=yes image\n", 1},
		{"x", "srun -N 2 --container-image=a bash -c \"cd x && NCCL_IB_DISABLE=yes ./a\"\n", 1},
		{"x", "(base) [user@host dir]$ NCCL_IB_DISABLE=yes bash train.sh\n", 1},
		{"x", "set -x\n+ export NCCL_IB_DISABLE=yes\n", 2},
		{"x", "root@node1:~# export NCCL_IB_DISABLE=yes\n", 1},
		{"x", "[root@node1 ~]# export NCCL_IB_DISABLE=yes\n", 1},
		{"x", "if true; then export NCCL_IB_DISABLE=yes; fi\n", 1},
		{"x", "export NCCL_IB_DISABLE=${NCCL_IB_DISABLE:-yes}\n", 1},
		{"x.service", "[Service]\nEnvironment=\"NCCL_IB_DISABLE=yes\"\n", 2},
		{"README.md", "Then set `NCCL_IB_DISABLE=yes` everywhere.\n", 1},
		{"README.md", "| variable | meaning | value |\n|---|---|---|\n| NCCL_IB_DISABLE | no RDMA | yes |\n", 3},
		{"env.txt", "SHELL=/bin/bash\nPWD=/root\nNCCL_IB_DISABLE=yes\n", 3},
		{"job.log", "a:1:2 [0] NCCL INFO Using network IB\nI used `-x NCCL_IB_DISABLE=yes`\n", 2},
		{"x", "# /usr/bin/mpirun -np 2 -x NCCL_IB_DISABLE=yes ./a\n", 1},
		{"x", "srun --export=LD_LIBRARY_PATH=$HOME/lib,NCCL_IB_DISABLE=yes ./a\n", 1},
		{"job.log", "a:1:2 [0] NCCL INFO Using network IB\n+ export NCCL_IB_DISABLE=yes\n", 2},
	} {
		r := Explain(c.name, c.text, nil, fabric.Invocation{})
		if !strings.Contains(asText(r), fmt.Sprintf("line %d: error: NCCL_IB_DISABLE Not a number for NCCL", c.line)) || r.Read.Settings != 1 {
			t.Errorf("%s: %q: %s", c.name, c.text, asText(r))
		}
	}
}

// TestMentionsThatSetNothing: to read, compare, describe or unset a variable does not set it, and neither does advice in a log.
func TestMentionsThatSetNothing(t *testing.T) {
	for name, text := range map[string]string{
		"a.py":      "import os\nif os.environ[\"NCCL_IB_DISABLE\"] == \"yes\": pass\nx = os.environ.get(\"NCCL_IB_DISABLE\", \"yes\")\nprint('NCCL_IB_DISABLE', x)\n# os.environ['NCCL_IB_DISABLE'] = 'yes'\n",
		"a.sh":      "unset NCCL_IB_DISABLE\n[ \"$NCCL_IB_DISABLE\" = yes ] && echo ${NCCL_IB_DISABLE}\n# export NCCL_IB_DISABLE=yes\n",
		"README.md": "NCCL_IB_DISABLE: the variable that turns RDMA off. TORCH_NCCL_IB_DISABLE=yes, NCCL_IB_*=yes\n",
		"job.log":   "a:1:2 [0] NCCL INFO Using network IB\nPlease set NCCL_IB_DISABLE=\"yes\" or use NCCL_IB_DISABLE=yes\n",
	} {
		if r := Explain(name, text, nil, fabric.Invocation{}); r.Read.Settings != 0 || len(r.Findings) != 0 || r.Read.Computed.Count != 0 {
			t.Errorf("%s: %s", name, asText(r))
		}
	}
}

func TestComputedSettingsAreNotChecked(t *testing.T) {
	for name, text := range map[string]string{
		"a.py": "import os\nos.environ['NCCL_IB_DISABLE'] = str(flag)\n", "b.py": "import os\nos.environ['NCCL_IB_DISABLE'] = f'{flag}'\n", "pod.yaml": "- name: NCCL_IB_DISABLE\n  valueFrom:\n    fieldRef: x\n",
		"a.sh": "export NCCL_IB_DISABLE=$1\n", "b.sh": "export NCCL_IB_DISABLE=`cat x`\n",
	} {
		if r := Explain(name, text, nil, fabric.Invocation{}); r.Read.Computed.Count != 1 || r.Read.Settings != 0 || len(r.Findings) != 0 || r.Sound() {
			t.Errorf("%s: %s", name, asText(r))
		}
	}
}

// TestVariablesOfOthers: what another program prints of its own is neither compared nor trouble.
func TestVariablesOfOthers(t *testing.T) {
	if r := Explain("x", "a:1:2 [0] NCCL INFO Using network IB\nx(SeqNum=1, OpType=A)\nx(SeqNum=2, OpType=B)\nexport HYDRA_FULL_ERROR=1\n", nil, fabric.Invocation{}); !r.Sound() {
		t.Error(asText(r))
	}
}

// TestErrorsComeFirst: of the findings an error comes first, whatever its line, and what is only untidy comes after the other warnings.
func TestErrorsComeFirst(t *testing.T) {
	r := Explain("x.conf", "NCCL_IB_TIMEOUT=20\nNCCL_IB_DISABLE=yes\n", nil, fabric.Invocation{})
	if len(r.Findings) < 2 || r.Findings[0].Line != 2 || r.Findings[1].Line != 1 {
		t.Error(asText(r))
	}
	r = Explain("x", "export NCCL_SOCKET_IFNAME=eth0\nexport NCCL_IB_TIMEOUT=30\n", nil, fabric.Invocation{})
	if last := r.Findings[len(r.Findings)-1]; last.Summary != "Prefix match" || len(r.Findings) < 2 {
		t.Error(asText(r))
	}
}

// TestBranchesNeedNotAgree: an if sets one of two values, and a paste shows the terminals of several hosts; two places that are both
// executed set two.
func TestBranchesNeedNotAgree(t *testing.T) {
	for text, want := range map[string]bool{
		"if a; then\nexport NCCL_CROSS_NIC=0\nelse\nexport NCCL_CROSS_NIC=1\nfi\n":       false,
		"case $h in\na) export NCCL_CROSS_NIC=0;;\nb) export NCCL_CROSS_NIC=1;;\nesac\n": false,
		"export NCCL_CROSS_NIC=0\nexport NCCL_CROSS_NIC=1\n":                             true,
		"if you like\nexport NCCL_CROSS_NIC=0\nexport NCCL_CROSS_NIC=1\n":                true,
		"# host a\nexport NCCL_CROSS_NIC=0\n# host b\nexport NCCL_CROSS_NIC=1\n":         false,
		"#!/bin/sh\nexport NCCL_CROSS_NIC=0\n# now\nexport NCCL_CROSS_NIC=1\n":           true,
		"NCCL_CROSS_NIC=0 ./a\nNCCL_CROSS_NIC=1 ./a\n":                                   false,
	} {
		if r := Explain("x", text, nil, fabric.Invocation{}); strings.Contains(asText(r), "Set twice, differently") != want {
			t.Errorf("%q: %s", text, asText(r))
		}
	}
}

const gids = `DEV     PORT    INDEX   GID                                     IPv4            VER     DEV
---     ----    -----   ---                                     ------------    ---     ---
mlx5_0  1       0       fe80:0000:0000:0000:0ac0:ebff:fe4e:1a2c                 v1      ens1f0np0
mlx5_0  1       1       fe80:0000:0000:0000:0ac0:ebff:fe4e:1a2c                 v2      ens1f0np0
mlx5_0  1       2       0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1        v1      ens1f0np0
mlx5_0  1       3       0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1        v2      ens1f0np0
mlx5_1  1       0       fe80:0000:0000:0000:0ac0:ebff:fe4e:1a2d                 v1      ens1f1np1
mlx5_1  1       1       fe80:0000:0000:0000:0ac0:ebff:fe4e:1a2d                 v2      ens1f1np1
n_gids_found=6
`

// TestGIDTablesDecide: NCCL_IB_GID_INDEX is held against the rows of the devices that NCCL_IB_HCA selects.
func TestGIDTablesDecide(t *testing.T) {
	for _, c := range []struct{ settings, want, not string }{
		{"", "line 7: warning:  No suitable GID", "line 3: warning"},
		{"", "mlx5_0:1 3 (10.0.0.1).", "Sparse"},
		{"export NCCL_IB_HCA==mlx5_0\n", "8 rows of tables", "No suitable"},
		{"export NCCL_IB_HCA==mlx5_0 NCCL_IB_ADDR_RANGE=10.9.0.0/16\n", "line 3: warning:  No suitable GID", "GIDs that NCCL chooses"},
		{"export NCCL_IB_HCA==mlx5_0 NCCL_IB_ROCE_VERSION_NUM=1\n", "mlx5_0:1 2 (10.0.0.1).", "No suitable"},
		{"export NCCL_IB_HCA==mlx5_0 NCCL_IB_ADDR_FAMILY=AF_INET6\n", "Correct NCCL_IB_ADDR_FAMILY", "GIDs that NCCL chooses"},
		{"export NCCL_IB_HCA==mlx5_0 NCCL_IB_ADDR_RANGE=$(cat range)\n", "8 rows of tables", "by address:"},
		{"export NCCL_IB_GID_INDEX=3\n", "line 7: error: NCCL_IB_GID_INDEX Empty GID", "line 6: error"},
		{"export NCCL_IB_GID_INDEX=2 NCCL_IB_HCA==mlx5_0\n", "line 5: error: NCCL_IB_GID_INDEX RoCE v1 GID", "Empty GID"},
		{"export NCCL_IB_GID_INDEX=1 NCCL_IB_HCA==mlx5_0\n", "choose index 3 (10.0.0.1), by address.", "Empty GID"},
		{"export NCCL_IB_GID_INDEX=3 NCCL_IB_HCA==mlx5_0\n", "GID index is pinned", "error"},
	} {
		r := Explain("x", gids+c.settings, nil, fabric.Invocation{})
		if text := asText(r); !strings.Contains(text, c.want) || strings.Contains(text, c.not) {
			t.Errorf("%q: %s", c.settings, text)
		}
	}
	if r := Explain("x", strings.ReplaceAll(gids, "10.0.0.1        v2", "10.0.0.1        v1"), nil, fabric.Invocation{}); !strings.Contains(asText(r), "GID 2 is RoCE v1") {
		t.Error(asText(r)) // NCCL takes the first IPv4 address of any version
	}
	if r := Explain("x", "$ show_gids\n"+gids, nil, fabric.Invocation{}); r.Kind != GIDs {
		t.Error(r.Kind)
	}
	two := gids + strings.ReplaceAll(gids, "10.0.0.1 ", "10.0.0.2 ")
	if r := Explain("x", two+"export NCCL_IB_GID_INDEX=2 NCCL_IB_HCA==mlx5_0\n", nil, fabric.Invocation{}); strings.Count(asText(r), "RoCE v1 GID") != 1 {
		t.Error(asText(r)) // equal findings of two hosts are one
	}
}

// TestSparseGIDTables: in a container, the first GIDs are often another namespace's (NVIDIA/nccl issue 890).
func TestSparseGIDTables(t *testing.T) {
	r := Explain("x", "mlx5_0  1  6  0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1  v1  net1\nmlx5_0  1  7  0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1  v2  net1\n", nil, fabric.Invocation{})
	if !strings.Contains(asText(r), "Sparse GID table") || !strings.Contains(asText(r), "set NCCL_IB_GID_INDEX=7 in this container") {
		t.Error(asText(r))
	}
}

// TestLinesOfOldLogs: NCCL before 2.4 writes no "NCCL" before the level, and threads quote messages without their beginning.
func TestLinesOfOldLogs(t *testing.T) {
	for text, want := range map[string]string{
		"n1:14852:14977 [6] INFO NET : Using interface eth0:10.0.0.1<0>\nn1:14852:14977 [6] INFO NET : Using interface veth0ffb104:fe80::1%veth0<0>\n": "Local interfaces among NCCL's",
		"include/socket.h:344 WARN Call to connect failed : Connection refused\n":                                                                      "Connection refused",
		"os.environ[\"NCCL_NET\"]=\"IB\"\nNET/IB: No device found.\n":                                                                                  "No RDMA device",
		"INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n":                                                                                  "GPUDirect RDMA",
		"NET/IB : Got completion from peer 10.0.0.1<36315> with status=12 opcode=32698 len=32696 vendor err 129 (Send)\n":                              "status=12",
	} {
		if r := Explain("x", text, nil, fabric.Invocation{}); r.Kind != Log || !strings.Contains(asText(r), want) {
			t.Errorf("%q: %s", text, asText(r))
		}
	}
	if r := Explain("x", "[launch.py] INFO starting\nWARN nothing\n12:00 [1] INFO ready\n", nil, fabric.Invocation{}); r.Nothing == "" {
		t.Errorf("another program's log: %s", asText(r))
	}
}

// TestErrorsOfOtherProgramsHaveNoTick: what the program itself says is not NCCL's, and not well either.
func TestErrorsOfOtherProgramsHaveNoTick(t *testing.T) {
	for _, text := range []string{
		"a:1:2 [0] NCCL INFO Connected all rings\n[rank0]: Traceback (most recent call last):\n[rank0]:   File \"a.py\", line 43\n[rank0]:     assert value == world_size\n",
		"$ mpirun -n 2 --mca pml ucx ./a\n[1.2] x.c:246 XYZ  ERROR something is wrong\n",
	} {
		if r := Explain("x", text, nil, fabric.Invocation{}); r.Sound() {
			t.Errorf("%q: %s", text, asText(r))
		}
	}
	if r := Explain("a.sh", "export NCCL_DEBUG=INFO\n[ -e x ] || die \"ERROR: no x\"\n", nil, fabric.Invocation{}); !r.Sound() {
		t.Error(asText(r)) // a script that can report one
	}
}

// TestTracebacks: the stack is named as such, NCCL's last error below it is read as a line of its log, and a stack without
// NCCL is not well.
func TestTracebacks(t *testing.T) {
	stack := "Traceback (most recent call last):\n  File \"/a.py\", line 3, in <module>\n    dist.all_reduce(t)\n"
	r := Explain("x", stack+"torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled system error, NCCL version 2.21.5\nncclSystemError: System call failed\nLast error:\nsocketStartConnect: Connect to 10.0.0.1<3> failed : Connection refused\n", nil, fabric.Invocation{})
	if r.Kind != Traceback || r.Read.Traceback != 3 || r.Version != "2.21.5" || !r.Failed() || !strings.Contains(asText(r), "10.0.0.1<3>") {
		t.Error(asText(r))
	}
	r = Explain("x", stack+"AssertionError\n", nil, fabric.Invocation{})
	if r.Kind != Traceback || r.Nothing != "the traceback has no error of NCCL" || !r.Failed() {
		t.Error(asText(r))
	}
}

func TestAccessControlOfLspci(t *testing.T) {
	text := "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-\n"
	if r := Explain("x", strings.Replace(text, "SrcValid+", "SrcValid-", 1), nil, fabric.Invocation{}); r.Nothing == "" {
		t.Error(asText(r))
	}
	if r := Explain("x", text, nil, fabric.Invocation{}); !strings.Contains(asText(r), "note:  PCI access control is on") {
		t.Error(asText(r))
	}
	if r := Explain("x", strings.Replace(text, "ReqRedir-", "ReqRedir+", 1), nil, fabric.Invocation{}); !strings.Contains(asText(r), "PCI access control redirects") {
		t.Error(asText(r))
	}
}

func TestDevicesOfIBDev2Netdev(t *testing.T) {
	r := Explain("x", "$ ibdev2netdev\nmlx5_0 port 1 ==> eth0 (Up)\nmlx5_1 port 1 ==> eth1 (Down)\nexport NCCL_IB_HCA==mlx5_1 NCCL_SOCKET_IFNAME==eth0\n", nil, fabric.Invocation{})
	for _, want := range []string{"line 3: error: NCCL_IB_HCA Device that is down", "line 4: note: NCCL_SOCKET_IFNAME Bootstrap over a NIC with RDMA"} {
		if !strings.Contains(asText(r), want) {
			t.Errorf("%s: %s", want, asText(r))
		}
	}
}

// TestKubernetesTakesStrings: numbers and booleans in env are rejected, and a device needs more than a path.
func TestKubernetesTakesStrings(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nspec:\n  volumes:\n  - hostPath: {path: /dev/infiniband}\n  containers:\n  - env:\n    - name: NCCL_IB_HCA\n      value: =mlx5_0\n    - name: NCCL_IB_QPS_PER_CONNECTION\n      value: 4\n"
	for text, want := range map[string]string{
		pod: "line 11: error:  Number instead of a string", pod + "#": "The container cannot open its RDMA devices", pod + "    resources: {limits: {rdma/hca: 1}}\n": "memlock is limited",
		"services:\n  a:\n    environment:\n      NCCL_IB_HCA: =mlx5_0\n": "No RDMA devices in the container",
	} {
		if r := Explain("x.yaml", text, nil, fabric.Invocation{}); !strings.Contains(asText(r), want) {
			t.Errorf("%s is not in %s", want, asText(r))
		}
	}
	off := strings.NewReplacer("NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_DISABLE", "value: 4", "value: false").Replace(pod)
	if said := asText(Explain("x.yaml", off, nil, fabric.Invocation{})); !strings.Contains(said, `Write value: "0".`) || !strings.Contains(said, "Write 0.") {
		t.Errorf("the cures of a boolean contradict each other: %s", said)
	}
	if r := Explain("x.yaml", strings.Replace(pod, "value: 4", "value: \"4\"", 1)+"    securityContext:\n      privileged: true\n", nil, fabric.Invocation{}); r.Failed() {
		t.Error(asText(r))
	}
}

// TestContainersForOneHost: a container that asks for no RDMA is not told to have it.
func TestContainersForOneHost(t *testing.T) {
	for _, text := range []string{"docker run --gpus all --ipc=host -e NCCL_DEBUG=INFO vllm/vllm-openai\n", "docker run -e NCCL_IB_DISABLE=1 -e NCCL_IB_TIMEOUT=22 image\n", "docker run --privileged -e NCCL_IB_HCA==mlx5_0 image\n"} {
		if r := Explain("x", text, nil, fabric.Invocation{}); r.Failed() {
			t.Errorf("%q: %s", text, asText(r))
		}
	}
}

// TestMlnxPerfTakesAnInterface: -i of mlnx_perf is no option of nccl-tests; of perftest it is a port.
func TestMlnxPerfTakesAnInterface(t *testing.T) {
	if r := Explain("x", "mlnx_perf -i xgbe0\nib_write_bw -i 1 -x 3\n./all_reduce_perf -i 100\n", nil, fabric.Invocation{}); strings.Count(asText(r), "Step instead of iterations") != 1 {
		t.Error(asText(r))
	}
}

// TestAssignmentsThatReadersTakeInDifferentWays: a space before the equals sign sets nothing in a shell, and docker run --env-file keeps quotes.
func TestAssignmentsThatReadersTakeInDifferentWays(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"x.sh", "NCCL_DEBUG = INFO\ntorchrun x.py\n", "line 1: error: NCCL_DEBUG Space around ="},
		{"x", "#!/bin/sh\nif true; then\n  NCCL_DEBUG ==INFO\nfi\n", "line 3: error: NCCL_DEBUG Space around ="},
		{"x.sh", "python3 - <<END\nNCCL_DEBUG = 'INFO'\nEND\n", ""},
		{"x.sh", "export NCCL_DEBUG=\"INFO\"\n", ""},
		{"issue", "We use these:\nNCCL_DEBUG = INFO\n", ""},
		{".env", "A=b\nNCCL_DEBUG = INFO\n", "line 2: warning: NCCL_DEBUG Space around ="},
		{"job.env", "NCCL_DEBUG=\"INFO\"\nNCCL_IB_HCA==mlx5_0\n", "line 1: note: NCCL_DEBUG Quotes in a .env file"},
		{"job.env", "NCCL_IB_HCA=='mlx5_0'\nNCCL_TOPO_FILE=\"/a b\"\n", ""},
	} {
		said := asText(Explain(c.name, c.text, nil, fabric.Invocation{}))
		if c.want == "" && (strings.Contains(said, "Space around =") || strings.Contains(said, "Quotes in")) || !strings.Contains(said, c.want) {
			t.Errorf("%q: %s", c.text, said)
		}
	}
}

// TestWhatWorksBesideASettingIsNotItsEffect: people say that ping works, and not that the setting before it helped.
func TestWhatWorksBesideASettingIsNotItsEffect(t *testing.T) {
	for text, helps := range map[string]bool{
		"I set NCCL_SOCKET_IFNAME=bond0. ping works between the nodes.\n": false,
		"NCCL_SOCKET_IFNAME=eth0 is set on both, and ssh is working.\n":   false,
		"With NCCL_P2P_DISABLE=1 a single node works, two hang.\n":        false,
		"I set NCCL_SOCKET_IFNAME=bond0. Now it works.\n":                 true,
		"Setting NCCL_P2P_DISABLE=1 fixes it; ping worked before.\n":      true,
	} {
		said := asText(Explain("x", text, nil, fabric.Invocation{}))
		if strings.Contains(said, "The text says that") != helps || strings.Contains(said, "bond0. helps") {
			t.Errorf("%s%s", text, said)
		}
	}
}

// TestSlowTestsBetweenHostsAreNamed: a table without a wrong value is not sound if the path carries a small part of what NICs for RDMA do.
func TestSlowTestsBetweenHostsAreNamed(t *testing.T) {
	table := func(second, busbw string) string {
		return "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n" +
			"#  Rank  0 Group  0 Pid  11233 on      gpu1 device  0 [0x1b] NVIDIA H100 80GB HBM3\n#  Rank  1 Group  0 Pid   9921 on      " + second + " device  1 [0x1c] NVIDIA H100 80GB HBM3\n" +
			"#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n" +
			"     1048576        262144     float     sum      -1   114.3    1.17    0.50      0   114.2    1.18    0.50      0\n" +
			"   134217728      33554432     float     sum      -1   114433    1.17   " + busbw + "      0   114201    1.18    1.18      0\n" +
			"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.17\n"
	}
	for text, slow := range map[string]bool{table("gpu2", "1.17"): true, table("gpu2", "11.5"): false, table("gpu1", "1.17"): false} {
		said := asText(Explain("x", text, nil, fabric.Invocation{}))
		if strings.Contains(said, "line 6: note:  As slow as a link of at most 25 Gb/s\n  The ranks are on several hosts, and the bus bandwidth is at most 1.17 GB/s, which is 9.4 Gb/s.") != slow {
			t.Errorf("slow: %v\n%s%s", slow, text, said)
		}
	}
}

// TestValuesOfAnEnvironmentAreStrings: os.environ["NCCL_X"] = True ends the program before NCCL reads anything.
func TestValuesOfAnEnvironmentAreStrings(t *testing.T) {
	for value, want := range map[string]string{"True": `Write "1".`, "False": `Write "0".`, "22  # x": `Write "22".`, `"1"`: "", "str(x)": "", "level": ""} {
		said := asText(Explain("x.py", "import os\nos.environ[\"NCCL_IB_TIMEOUT\"] = "+value+"\n", nil, fabric.Invocation{}))
		if strings.Contains(said, "line 2: error: NCCL_IB_TIMEOUT Not a string") != (want != "") || !strings.Contains(said, want) {
			t.Errorf("%s: %s", value, said)
		}
	}
}
