//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// containerImage makes an image named job of some of the guest's own programs, with their libraries: nothing is pulled.
const containerImage = `set -eu
files=$(for f in sh cat env df ibv_devinfo ib_send_lat; do command -v $f; done; ls /usr/lib/x86_64-linux-gnu/libibverbs/librxe-*.so)
tar -chf /root/image.tar -C / etc/libibverbs.d/rxe.driver $(for f in $files; do echo $f; ldd $f | grep -o '/[^ ]*'; done | sort -u | cut -c2-)
podman import -q /root/image.tar job`

// TestContainersGetTheFabric: Podman takes the options that are rendered for Docker, and the job in the container has the host's
// settings, network, shared memory and RDMA devices.
func TestContainersGetTheFabric(t *testing.T) {
	long(t)
	tree := t.TempDir()
	for _, deb := range must(filepath.Glob(packagesOf(t, "trixie", "podman", "conmon", "crun", "golang-github-containers-common", "golang-github-containers-image", "netavark",
		"libgpgme11t64", "libassuan9", "libgpg-error0", "libsubid5", "libyajl2", "libsqlite3-0", "libatomic1", "libglib2.0-0t64", "libseccomp2") + "/*.deb")) {
		if out, err := exec.Command("dpkg-deb", "-x", deb, tree).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	dir, example := t.TempDir(), string(must(os.ReadFile(softRoCE)))
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const odd = `it's "$(id)"; ${HOME} \n`
	file := write("file.hcl", example+"\nnccl {}\n")
	variables := write("variables.hcl", example+"\nnccl {\n  write = false\n  env = { NCCL_DEBUG_FILE = \"it's \\\"$(id)\\\"; $${HOME} \\\\n\" }\n}\n")
	state := vmLabFor(t, file)
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", file).want(t, 0, "✓ node1.nccl.file")

	// put sends a file or a folder to a guest's /root or /.
	put := func(at, script string, tar ...string) {
		t.Helper()
		cmd := exec.Command("sh", "-c", `tar "$@" | "$BIN" lab exec "$FABRIC" node1 -- sh -c "tar -C $AT --no-same-owner --keep-directory-symlink -xf - && $SCRIPT"`, "sh")
		cmd.Args = append(cmd.Args, tar...)
		cmd.Env = append(os.Environ(), "BIN="+bin, "FABRIC="+file, "AT="+at, "SCRIPT="+script, "XDG_STATE_HOME="+state)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	put("/", "ldconfig", "--exclude=./usr/share/doc", "--exclude=./usr/share/man", "-C", tree, "-cf", "-", ".")
	inside(t, state, file, "node1", "sh", "-c", containerImage)

	// job runs a program in a container, as the rendered script starts it.
	job := func(fabric string, argv ...string) string {
		t.Helper()
		scripts := filepath.Join(dir, "scripts")
		try(t, state, "render", "nccl", "-lab", "-format", "docker", "-out", scripts, fabric).want(t, 0, "node1.docker.sh", "node2.docker.sh")
		put("/root", "true", "-C", scripts, "-cf", "-", "node1.docker.sh")
		return inside(t, state, file, "node1", append([]string{"env", "DOCKER=podman", "/root/node1.docker.sh", "job"}, argv...)...)
	}
	said := job(file, "sh", "-c", "cat /proc/self/limits /etc/nccl.conf /proc/net/dev; env; df /dev/shm; ibv_devinfo -d rxe1")
	shm := strings.Fields(inside(t, state, file, "node1", "df", "--output=size", "/dev/shm"))[1]
	for _, want := range []string{"\nMax locked memory         unlimited            unlimited ", "\nNCCL_IB_HCA==rxe0,rxe1\n", "\n  eth1: ", "\nGLOO_SOCKET_IFNAME=eth1\n", "\ncontainer=podman\n", "tmpfs", shm, "PORT_ACTIVE"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing:\n%s", want, said)
		}
	}
	said = job(variables, "sh", "-c", "cat /etc/nccl.conf || env")
	for _, want := range []string{"\nNCCL_IB_HCA==rxe0,rxe1\n", "\nNCCL_DEBUG_FILE=" + odd + "\n", "\nTP_SOCKET_IFNAME=eth1\n"} {
		if !strings.Contains("\n"+said, want) {
			t.Errorf("%q is missing:\n%s", want, said)
		}
	}

	inside(t, state, file, "node2", "sh", "-c", "ib_send_lat -d rxe0 -x 1 -n 20 >/dev/null 2>&1 </dev/null & sleep 4")
	if said := job(file, "ib_send_lat", "-d", "rxe0", "-x", "1", "-n", "20", "10.20.0.2"); !strings.Contains(said, "t_typical") {
		t.Errorf("no RDMA:\n%s", said)
	}
	// The options are what made that possible.
	if a := try(t, state, "lab", "exec", file, "node1", "--", "podman", "run", "--rm", "job", "ibv_devinfo"); a.code == 0 {
		t.Errorf("without them:\n%s", a.out)
	}
}
