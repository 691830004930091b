package persist

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/host"
)

// neighbours is a machine whose files are those below a folder, with the real parsers. Whatever they
// write goes below the folders that Stage makes.
type neighbours struct {
	host.Host
	root string
}

func (n neighbours) ReadFile(p string) ([]byte, error) {
	return os.ReadFile(filepath.Join(n.root, p))
}

func (n neighbours) ReadDir(p string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(n.root, p))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func machine(t *testing.T, files map[string]string) neighbours {
	t.Helper()
	h, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	n := neighbours{h, t.TempDir()}
	for p, text := range files {
		if err := os.MkdirAll(filepath.Join(n.root, path.Dir(p)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(n.root, p), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// parsers are the programs that read each owner's files, and a file of somebody else's that breaks
// what is read with it.
var parsers = map[string]struct {
	program, others, text, broken string
}{
	"netplan":                {"netplan", "/etc/netplan/50-others.yaml", "network: {ethernets: {ens9: {dhcp4: true}}}\n", "network: {ethernets: {ens9: {mtu: many}}}\n"},
	"netplan-networkmanager": {"netplan", "/etc/netplan/50-others.yaml", "network: {renderer: NetworkManager, ethernets: {ens9: {dhcp4: true}}}\n", ""},
	"networkmanager":         {"nmcli", "", "", ""},
	"ifupdown":               {"ifquery", "/etc/network/interfaces", "auto lo\niface lo inet loopback\nsource /etc/network/interfaces.d/*\n", "iface\nsource /etc/network/interfaces.d/*\n"},
}

// TestManagersReadOurFiles asks each manager's own parser, where it is installed.
func TestManagersReadOurFiles(t *testing.T) {
	for name, p := range parsers {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(p.program); err != nil {
				t.Skip(p.program + " is not installed here")
			}
			files := map[string]string{}
			if p.others != "" {
				files[p.others] = p.text
			}
			wanted, _ := wantFiles(t, owners[name])
			if err := Check(t.Context(), machine(t, files), wanted); err != nil {
				t.Errorf("refused: %v", err)
			}
			if p.broken == "" {
				return
			}
			files[p.others] = p.broken
			err := Check(t.Context(), machine(t, files), wanted)
			if err == nil || !strings.Contains(err.Error(), path.Base(p.others)) {
				t.Errorf("a broken neighbour is not named: %v", err)
			}
		})
	}
}

// TestParsersRefuseWhatIsWrong proves that the parsers are asked at all.
func TestParsersRefuseWhatIsWrong(t *testing.T) {
	for program, f := range map[string]File{
		"netplan":         {Path: netplanPath("lab"), Text: "network:\n  ethernets:\n    ens1: {mtu: many}\n"},
		"nmcli":           {Path: "/etc/NetworkManager/system-connections/x.nmconnection", Text: "[connection]\nid=x\ntype=ethernet\n[ipv4]\nmethod=manually\n"},
		"ifquery":         {Path: "/etc/network/interfaces.d/x", Text: "iface\n"},
		"systemd-analyze": {Path: unitFolder + "/fabricform-x.service", Text: "[Service]\nExecStart=no-such-program\n"},
	} {
		t.Run(program, func(t *testing.T) {
			if _, err := exec.LookPath(program); err != nil {
				t.Skip(program + " is not installed here")
			}
			m := machine(t, map[string]string{"/etc/network/interfaces": "source /etc/network/interfaces.d/*\n"})
			if err := Check(t.Context(), m, []File{f}); err == nil || !strings.Contains(err.Error(), f.Path) {
				t.Errorf("accepted, or not named: %v", err)
			}
		})
	}
}
