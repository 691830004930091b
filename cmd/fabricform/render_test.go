package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl/launch"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/transport"
	"github.com/fabricform/fabricform/view"
)

// TestRenderWritesOneFilePerHost: each is a script as it is, and nothing is replaced that fabricform did not render.
func TestRenderWritesOneFilePerHost(t *testing.T) {
	path, build := fileOf(t, pairFile+"nccl {}\n")
	dir := filepath.Dir(path)
	out := filepath.Join(dir, "scripts", "here")
	answers := func(_ context.Context, to transport.Target) (io.ReadWriteCloser, error) {
		snapshot := &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "eth0", Up: true, Carrier: true, MTU: 1500}},
			Addrs: []host.Addr{{Index: 2, Prefix: netip.MustParsePrefix(map[string]string{"a": "10.0.0.1/24", "b": "10.0.0.2/24"}[to.Name])}}}
		netmanager.Part.Put(snapshot, netmanager.Found{})
		return answering(build, map[string]any{"snapshot": calls.SnapshotResult{Snapshot: snapshot}}), nil
	}
	render := func(args ...string) (string, error) {
		var said bytes.Buffer
		root := rootCommand(&app{out: view.New(&said), err: view.New(&said), dial: answers})
		root.SetArgs(longFlags(append(append([]string{"render", "nccl"}, args...), path)))
		err := root.ExecuteContext(t.Context())
		return said.String(), err
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if said, err := render(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\n%s", args, err, said)
		}
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}

	for _, f := range []string{"conf", "shell", "torchrun", "docker"} {
		refused("-format "+f+" makes one file for each of the 2 hosts: use -out DIR, or choose one host with -host", "-format", f)
	}
	for range 2 { // and again over its own files
		said, err := render("-format", "torchrun", "-out", out)
		if want := filepath.Join(out, "a.torchrun.sh") + "\n" + filepath.Join(out, "b.torchrun.sh") + "\n"; err != nil || said != want {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	said, err := render("-format", "torchrun", "-host", "a", "-out", out)
	if want := "! " + out + " has files of an earlier rendering that are not part of this job: b.torchrun.sh. Remove them"; err != nil || !strings.Contains(said, want) {
		t.Errorf("%v: %q is missing in\n%s", err, want, said)
	}
	if said, err := render("-format", "torchrun", "-out", out); err != nil || strings.Contains(said, "!") {
		t.Errorf("%v\n%s", err, said)
	}
	for rank, name := range []string{"a", "b"} {
		text := read(name + ".torchrun.sh")
		if info, err := os.Stat(filepath.Join(out, name+".torchrun.sh")); err != nil || info.Mode().Perm() != 0o755 || !strings.HasPrefix(text, "#!/bin/sh\n"+launch.Mark+"torchrun, host "+name+" of fabric f\n") ||
			!strings.Contains(text, "--node-rank="+string(rune('0'+rank))+" ") || strings.Count(text, "#!") != 1 {
			t.Errorf("%v\n%s", err, text)
		}
	}
	if said, err := render("-out", out); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	if info, err := os.Stat(filepath.Join(out, "a.nccl.conf")); err != nil || info.Mode().Perm() != 0o644 || !strings.HasPrefix(read("a.nccl.conf"), launch.Mark) {
		t.Error(err)
	}
	if said, err := render("-format", "mpirun", "-out", out); err != nil || !strings.HasPrefix(said, "! a, b: no GPU was found there") || !strings.HasSuffix(said, "\n"+filepath.Join(out, "f.mpirun.sh")+"\n") || !strings.HasPrefix(read("f.mpirun.sh"), "#!/bin/sh\n") {
		t.Errorf("%v\n%s", err, said)
	}

	foreign := filepath.Join(out, "b.docker.sh")
	if err := os.WriteFile(foreign, []byte("#!/bin/sh\n# mine\n"+launch.Mark+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(foreign+" exists, and fabricform did not render it: move it away, or name another folder", "-format", "docker", "-out", out)
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{filepath.Join(out, "a.torchrun.sh"), "/nowhere"} {
		if err := os.Symlink(target, foreign); err != nil {
			t.Fatal(err)
		}
		refused(foreign+" is not a regular file, and -out does not follow links", "-format", "docker", "-out", out)
		if err := os.Remove(foreign); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(out, "a.docker.sh")); err == nil {
		t.Error("a part was written")
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(out, link); err != nil {
		t.Fatal(err)
	}
	refused(link+" is not a folder, and -out does not follow links", "-format", "docker", "-out", link)
	refused(path+" is not a folder", "-format", "docker", "-out", path)
	refused(link+" is not a folder, and -out does not follow links", "-format", "docker", "-out", link+"/")
	const shared = "another user owns %s or can write to it, and could replace the scripts before you run them"
	for _, mode := range []fs.FileMode{0o777, 0o775, fs.ModeSticky | 0o777} {
		if err := os.Chmod(out, mode); err != nil {
			t.Fatal(err)
		}
		refused(fmt.Sprintf(shared, out), "-format", "docker", "-out", out)
	}
	if err := os.Chmod(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // only root can give a folder away
		if err := os.Chown(out, 64123, -1); err != nil {
			t.Fatal(err)
		}
		refused(fmt.Sprintf(shared, out), "-format", "docker", "-out", out)
	}
	if _, err := os.Lstat(filepath.Join(out, "a.docker.sh")); err == nil {
		t.Error("a script was written where another user can replace it")
	}

	// Folders above: a sticky one and links of ours are fine, and nothing is made below one that another user can change.
	above := filepath.Join(dir, "above")
	below := filepath.Join(above, "x", "y")
	if err := errors.Join(os.Mkdir(above, 0o755), os.Symlink("../"+filepath.Base(dir)+"/above", filepath.Join(dir, "to"))); err != nil {
		t.Fatal(err)
	}
	for mode, group := range map[fs.FileMode]int{0o777: os.Getegid(), 0o775: 64123} {
		if group != os.Getegid() && os.Geteuid() != 0 { // only root can give a folder away
			continue
		}
		if err := errors.Join(os.Chown(above, -1, group), os.Chmod(above, mode)); err != nil {
			t.Fatal(err)
		}
		refused(fmt.Sprintf(shared, above), "-format", "docker", "-out", below)
		refused(fmt.Sprintf(shared, above), "-format", "docker", "-out", filepath.Join(dir, "to", "x"))
	}
	if os.Getegid() == os.Geteuid() { // a group of this user alone
		if err := errors.Join(os.Chown(above, -1, os.Getegid()), os.Chmod(above, 0o775)); err != nil {
			t.Fatal(err)
		}
		if said, err := render("-format", "docker", "-out", filepath.Join(above, "group")); err != nil {
			t.Errorf("%v\n%s", err, said)
		}
	}
	if err := os.Chmod(above, fs.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		foreign, link := filepath.Join(above, "foreign"), filepath.Join(above, "link")
		if err := errors.Join(os.Mkdir(foreign, 0o755), os.Chown(foreign, 64123, -1), os.Symlink(out, link), os.Lchown(link, 64123, -1)); err != nil {
			t.Fatal(err)
		}
		refused(fmt.Sprintf(shared, foreign), "-format", "docker", "-out", filepath.Join(foreign, "x"))
		refused(fmt.Sprintf(shared, link), "-format", "docker", "-out", filepath.Join(link, "x"))
	}
	if _, err := os.Lstat(filepath.Join(above, "x")); err == nil {
		t.Error("a folder was made where another user can replace it")
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	refused("too many levels of symbolic links", "-format", "docker", "-out", filepath.Join(loop, "x"))
	refused(path+" is not a folder", "-format", "docker", "-out", filepath.Join(path, "x"))
	for _, dir := range []string{below, filepath.Join(dir, "to", "x", "..", "z")} {
		if said, err := render("-format", "docker", "-out", dir); err != nil {
			t.Errorf("%v\n%s", err, said)
		}
	}
}

// TestRenderBeforeApplySaysSo: an interface may be down only because the fabric has not been applied yet, and render names that reason.
func TestRenderBeforeApplySaysSo(t *testing.T) {
	path, build := fileOf(t, pairFile+"nccl {\n  socket_ifname = \"eth0\"\n}\n")
	for _, up := range []bool{false, true} {
		var said bytes.Buffer
		root := rootCommand(&app{out: view.New(&said), err: view.New(&said), dial: func(context.Context, transport.Target) (io.ReadWriteCloser, error) {
			snapshot := &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "eth0", Up: up, Carrier: true, MTU: 1500}},
				Addrs: []host.Addr{{Index: 2, Prefix: netip.MustParsePrefix("10.0.0.1/24")}}}
			netmanager.Part.Put(snapshot, netmanager.Found{})
			return answering(build, map[string]any{"snapshot": calls.SnapshotResult{Snapshot: snapshot}}), nil
		}})
		root.SetArgs(longFlags([]string{"render", "nccl", "-host", "a", path}))
		err := root.ExecuteContext(t.Context())
		if hint := "run `fabricform apply " + path + "` first"; (err == nil) != up || strings.Contains(said.String(), hint) == up {
			t.Errorf("up: %v: %v\n%s", up, err, said.String())
		}
	}
}

// TestRenderSlurmTopology: hosts on the same segments share a leaf, what networks join has a spine, and comments say what is left open. The
// end-to-end tests give such files to slurmctld.
func TestRenderSlurmTopology(t *testing.T) {
	var said bytes.Buffer
	root := rootCommand(&app{out: view.New(&said), err: view.New(&said)})
	root.SetArgs([]string{"render", "slurm-topology", "testdata/islands.hcl"})
	err := root.ExecuteContext(t.Context())
	const want = `# Not used, because they are not for training: network storage.
# In no network and on no cable, so Slurm gives them only jobs of one node: login. Add them to a switch if they are on one.
# leaf1: network x
SwitchName=leaf1 Nodes=a,b
# leaf2: network x, network y
SwitchName=leaf2 Nodes=c
# leaf3: network y
SwitchName=leaf3 Nodes=d
SwitchName=spine1 Switches=leaf[1-3]
# leaf4: direct cables with e
SwitchName=leaf4 Nodes=e,f
# Nothing in the files joins the 2 groups above with each other: Slurm gives no job nodes of two of them.
`
	if _, rest, _ := strings.Cut(said.String(), "is not known.\n"); err != nil || rest != want {
		t.Errorf("%v\n%s", err, said.String())
	}
}
