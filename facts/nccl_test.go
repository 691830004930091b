package facts

import (
	"io/fs"
	"reflect"
	"testing"

	"github.com/fabricform/fabricform/host"
)

func TestWhereElseNCCLReads(t *testing.T) {
	got := ncclElse(etc(t, map[string]string{
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
	if none := ncclElse(etc(t, nil)); none != nil {
		t.Errorf("%+v", none)
	}
}

// still is a host without a network, which notes what is looked at.
type still struct {
	tree
	looked map[string]bool
}

func (still) Links() ([]host.Link, error)   { return nil, nil }
func (still) Addrs() ([]host.Addr, error)   { return nil, nil }
func (still) Routes() ([]host.Route, error) { return nil, nil }
func (still) Rules() ([]host.Rule, error)   { return nil, nil }
func (still) Sysctl(string) (string, error) { return "", fs.ErrNotExist }
func (still) Dump(uint16) ([][]byte, error) { return nil, nil }
func (s still) note(p string)               { s.looked[p] = true }
func (s still) ReadFile(p string) ([]byte, error) {
	s.note(p)
	return s.tree.ReadFile(p)
}

func (s still) Stat(p string) (host.FileStat, error) {
	s.note(p)
	return s.tree.Stat(p)
}

// TestHomesAreLookedIntoOnlyWhereThatIsNeeded: a home may be on a file server that only the fabric
// leads to, and a read of it waits as long as the fabric is down.
func TestHomesAreLookedIntoOnlyWhereThatIsNeeded(t *testing.T) {
	const at = "/home/ann/.nccl.conf"
	r := etc(t, map[string]string{"/etc/passwd": "ann:x:1000:1000::/home/ann:/bin/sh\n", at: "NCCL_DEBUG=WARN\n"})
	for _, n := range []Needs{{NCCL: true, Managers: true, Folders: []string{"/etc"}}, {Homes: true}} {
		s := still{r, map[string]bool{}}
		snap, err := Gather(s, "", n)
		if err != nil || s.looked[at] != n.Homes || (snap.NCCLElse != nil) != n.Homes {
			t.Errorf("%+v: %v, %v, %v", n, err, s.looked[at], snap.NCCLElse)
		}
	}
}

// TestNCCLConfIsReadWhateverItIs: it is the one file of others in a snapshot, because NCCL takes it.
func TestNCCLConfIsReadWhateverItIs(t *testing.T) {
	var s Snapshot
	if err := s.readFiles(etc(t, map[string]string{"/etc/nccl.conf": "A=1\n", "/etc/shadow": "secret", "/etc/x-fabricform": "ours"}), []string{"/etc"}); err != nil {
		t.Fatal(err)
	}
	if len(s.Files) != 2 || s.Files[host.NCCLConf].Text != "A=1\n" || s.Files["/etc/x-fabricform"].Text != "ours" {
		t.Errorf("%+v", s.Files)
	}
	s = Snapshot{}
	if err := s.readFiles(etc(t, map[string]string{"/etc/nccl.conf/inside": ""}), []string{"/etc"}); err != nil || !s.Files[host.NCCLConf].Mode.IsDir() {
		t.Error(s.Files, err)
	}
}
