package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
)

// withConfig runs the program in the lab's management network with this ~/.ssh/config, which is in a file system of the command's own.
func (o *outside) withConfig(config string, args ...string) answer {
	o.t.Helper()
	root, err := user.LookupId("0")
	if err != nil {
		o.t.Fatal(err)
	}
	raw, err := os.ReadFile(bin) // it may be below the home
	own := filepath.Join(o.dir, "fabricform")
	if err == nil {
		err = os.WriteFile(own, raw, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(o.dir, "ssh_config"), []byte(config), 0o600)
	}
	if err != nil {
		o.t.Fatal(err)
	}
	const script = `mount -t tmpfs tmpfs "$0"; mkdir -m 700 "$0/.ssh"; cp "$1" "$0/.ssh/config"; net=$2; shift 2; exec nsenter --net="/proc/$net/ns/net" -- "$@"`
	cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-ec", script, root.HomeDir, filepath.Join(o.dir, "ssh_config"), fmt.Sprint(o.netPID), own}, args...)...)
	cmd.Dir = o.dir
	return tryCommand(o.t, o.state, cmd)
}

// TestHostsOfSSHConfigAreDiscoveredAndImported: names of ~/.ssh/config and addresses with users are one list. The login is a user with sudo, and
// the files reach the hosts as the list did.
func TestHostsOfSSHConfigAreDiscoveredAndImported(t *testing.T) {
	together(t)
	o := reachFromOutside(t)
	config := fmt.Sprintf(`Host gpu-*
  User tutu
  IdentityFile %s
  UserKnownHostsFile %s
Host gpu-a
  HostName %s
Host gpu-b.cluster.example
  HostName %s
Host gpu-gone
  HostName 192.0.2.1
  ConnectTimeout 1
Host %[3]s %[4]s
  IdentityFile %[1]s
  UserKnownHostsFile %[2]s
`, filepath.Join(o.dir, "id_ed25519"), filepath.Join(o.dir, "known_hosts"), o.addr["a"], o.addr["b"])
	for i, host := range []string{"a", "b"} {
		o.script(host, fmt.Sprintf("ip link set ens19f0np0 up mtu 9000; ip addr add 192.168.88.%d/30 dev ens19f0np0; sysctl -qw net.ipv6.conf.ens19f0np0.accept_ra=0", i+1))
	}
	const cable = "✓ gpu-a:ens19f0np0 – gpu-b.cluster.example:ens19f0np0\n"
	o.withConfig(config, "discover", "-listen=2s", "gpu-a", "gpu-b.cluster.example").want(t, 0, "Direct cables\n  "+cable)
	o.withConfig(config, "discover", "-listen=2s", "gpu-a", "gpu-gone", "gpu-b.cluster.example").want(t, 4, cable, "unreachable gpu-gone: ")

	a := o.withConfig(config, "import", "-listen=1s", "-out", "gone", "gpu-a", "gpu-gone")
	a.want(t, 4, "unreachable gpu-gone: ", "nothing was written")
	if _, err := os.Stat(filepath.Join(o.dir, "gone")); err == nil {
		t.Error("something was written without a host")
	}
	a = o.withConfig(config, "import", "-listen=2s", "-json", "-out", "cluster", "gpu-a", "tutu@"+o.addr["b"])
	var said struct{ Hosts, Links int }
	if err := json.Unmarshal([]byte(a.out), &said); err != nil || a.code != 0 || said.Hosts != 2 || said.Links != 1 {
		t.Fatalf("%+v, %v", said, err)
	}
	raw, err := os.ReadFile(filepath.Join(o.dir, "cluster", "fabric.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", raw)
	for _, want := range []string{`"gpu-a"`, fmt.Sprintf("%q", o.addr["b"]), `"tutu"`, `link "a-b-rail0"`, `subnet    = "192.168.88.0/30"`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s is not in the file", want)
		}
	}
	o.withConfig(config, "plan", "-detailed-exitcode", "cluster").want(t, 0, "No changes")
	o.withConfig(config, "apply", "-auto-approve", "-no-verify", "cluster").want(t, 0, "No changes")
	o.withConfig(config, "verify", "-only", "cabling,ping", "cluster").want(t, 0, "Verified (cabling, ping)")

	for args, says := range map[string]string{
		"gpu-a gpu-a": "host gpu-a is named twice", "gpu-a tutu@" + o.addr["a"]: "are one machine: name it once", "no-such-host": "unreachable no-such-host: ",
	} {
		a := o.withConfig(config, append([]string{"import", "-listen=1s", "-out", "twice"}, strings.Fields(args)...)...)
		if a.code == 0 || !strings.Contains(a.err, says) {
			t.Errorf("%s: %q is not said", args, says)
		}
		if _, err := os.Stat(filepath.Join(o.dir, "twice")); err == nil {
			t.Errorf("%s: something was written", args)
		}
	}
}
