package facts

import (
	"reflect"
	"testing"

	"github.com/fabricform/fabricform/host"
)

func TestWhereElseNCCLReads(t *testing.T) {
	got := new(Homes).NCCLElse(t.Context(), etc(t, map[string]string{
		"/etc/passwd":              "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\nevil:x:1:1::/home/../etc:/bin/sh\nd:x:2:2::/var/d:/bin/sh\nshort:x\n",
		"/etc/environment":         "PATH=/bin\nNCCL_CONF_FILE=\"/opt/nccl.conf\"\n export NCCL_DEBUG=INFO\n#NCCL_X=1\nNCCL_ALONE\n",
		"/home/ann/.nccl.conf":     "NCCL_DEBUG=WARN\n",
		"/home/bob/.nccl.conf/dir": "",
		"/etc/.nccl.conf":          "", "/var/d/.nccl.conf": "",
	}))
	want := []NCCLPlace{{Path: "/etc/environment", Sets: []string{"NCCL_CONF_FILE=/opt/nccl.conf", "NCCL_DEBUG=INFO"}}, {Path: "/home/ann/.nccl.conf"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if none := new(Homes).NCCLElse(t.Context(), etc(t, nil)); none != nil {
		t.Errorf("%+v", none)
	}
}

// TestNCCLConfIsReadWhateverItIs: it is the one file of others in a snapshot, because NCCL takes it.
func TestNCCLConfIsReadWhateverItIs(t *testing.T) {
	var s Snapshot
	if err := s.ReadFiles(t.Context(), etc(t, map[string]string{"/etc/nccl.conf": "A=1\n", "/etc/shadow": "secret", "/etc/x-fabricform": "ours"}), "/etc"); err != nil {
		t.Fatal(err)
	}
	if len(s.Files) != 2 || s.Files[host.NCCLConf].Text != "A=1\n" || s.Files["/etc/x-fabricform"].Text != "ours" {
		t.Errorf("%+v", s.Files)
	}
	s = Snapshot{}
	if err := s.ReadFiles(t.Context(), etc(t, map[string]string{"/etc/nccl.conf/inside": ""}), "/etc"); err != nil || !s.Files[host.NCCLConf].Mode.IsDir() {
		t.Error(s.Files, err)
	}
}
