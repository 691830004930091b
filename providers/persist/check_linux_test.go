package persist

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
)

// neighbours is a machine whose files are those below a folder, with the real parsers. Whatever they
// write goes below the folders that Stage makes.
type neighbours struct {
	host.Host
	root string
}

func (n neighbours) ReadFile(_ context.Context, p string) ([]byte, error) {
	return os.ReadFile(filepath.Join(n.root, p))
}

func (n neighbours) ReadDir(_ context.Context, p string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(n.root, p))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (n neighbours) Stat(_ context.Context, p string) (host.FileStat, error) {
	info, err := os.Lstat(filepath.Join(n.root, p))
	if err != nil {
		return host.FileStat{}, err
	}
	return host.FileStat{Mode: info.Mode()}, nil
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

// parsers are the programs that read each manager's files, and a file of somebody else's that breaks
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
			wanted, _ := wantFiles(t, managedHosts[name])
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

const netplanFile = "/etc/netplan/90-fabricform-lab.yaml"

// TestParsersRefuseWhatIsWrong proves that the parsers are asked at all.
func TestParsersRefuseWhatIsWrong(t *testing.T) {
	for program, f := range map[string]netmanager.File{
		"netplan":         {Path: netplanFile, Text: "network:\n  ethernets:\n    ens1: {mtu: many}\n"},
		"nmcli":           {Path: "/etc/NetworkManager/system-connections/x.nmconnection", Text: "[connection]\nid=x\ntype=ethernet\n[ipv4]\nmethod=manually\n"},
		"ifquery":         {Path: "/etc/network/interfaces.d/x", Text: "iface\n"},
		"systemd-analyze": {Path: unitFolder + "/fabricform-x.service", Text: "[Service]\nExecStart=no-such-program\n"},
	} {
		t.Run(program, func(t *testing.T) {
			if _, err := exec.LookPath(program); err != nil {
				t.Skip(program + " is not installed here")
			}
			m := machine(t, map[string]string{"/etc/network/interfaces": "source interfaces.d/*\n"})
			if err := Check(t.Context(), m, []netmanager.File{f}); err == nil || !strings.Contains(err.Error(), f.Path) {
				t.Errorf("accepted, or not named: %v", err)
			}
		})
	}
}

// parser is a machine whose programs only say something, and which notes what is staged for them.
type parser struct {
	neighbours
	says   host.Answer
	staged map[string]string
	asked  string
}

func (p *parser) Stage(files map[string][]byte) (string, func() error, error) {
	for at, text := range files {
		p.staged[at] = string(text)
	}
	return "/staged", func() error { return nil }, nil
}

func (p *parser) Ask(_ context.Context, _ []byte, name string, args ...string) (host.Answer, error) {
	p.asked = strings.Join(append([]string{name}, args...), " ")
	return p.says, nil
}

// TestOnlyWhatManagersReadIsStaged: there may be folders beside their files, and files of other names.
func TestOnlyWhatManagersReadIsStaged(t *testing.T) {
	m := machine(t, map[string]string{"/etc/netplan/50-others.yaml": "others", "/etc/netplan/backup/50-others.yaml": "older", "/etc/netplan/old.yaml/x": "",
		"/etc/netplan/README": "", "/srv/link.yaml": "linked"})
	for name, to := range map[string]string{"60-link.yaml": "../../srv/link.yaml", "61-gone.yaml": "gone", "62-folder.yaml": "backup"} {
		if err := os.Symlink(to, m.root+"/etc/netplan/"+name); err != nil {
			t.Fatal(err)
		}
	}
	p := &parser{neighbours: m, staged: map[string]string{}}
	if err := Check(t.Context(), p, []netmanager.File{{Path: netplanFile, Text: "ours"}}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"/etc/netplan/50-others.yaml": "others", "/etc/netplan/60-link.yaml": "linked", netplanFile: "ours"}
	if !maps.Equal(p.staged, want) {
		t.Errorf("%v, want %v", p.staged, want)
	}
}

// TestIfqueryReadsOneCopy: whether interfaces names the folder from the root or from its own place. What
// it passes over is an error, whatever it warns of beside.
func TestIfqueryReadsOneCopy(t *testing.T) {
	const main, ours, others = "/etc/network/interfaces", "/etc/network/interfaces.d/fabricform-lab-eth0", "/etc/network/interfaces.d/others"
	for says, refuses := range map[string]bool{
		"": false, "ifquery: warning: old\n": false, "no matter\n": false,
		"ifquery: warning: old\nifquery: /staged" + others + ":1: too few parameters\n": true,
	} {
		p := &parser{neighbours: machine(t, map[string]string{main: "source interfaces.d/*\nsource-directory /etc/network/interfaces.d\n", others: "others", "/etc/network/interfaces.d/sub/x": ""}),
			staged: map[string]string{}, says: host.Answer{Stderr: says}}
		err := Check(t.Context(), p, []netmanager.File{{Path: ours, Text: "ours"}})
		if (err != nil) != refuses || refuses && !strings.Contains(err.Error(), " "+others+":1: too few") {
			t.Errorf("%q: %v", says, err)
		}
		want := map[string]string{main: "source interfaces.d/*\nsource-directory interfaces.d\n", others: "others", ours: "ours"}
		if !maps.Equal(p.staged, want) || p.asked != "ifquery --interfaces=/staged"+main+" --list --all" {
			t.Errorf("%v, %s", p.staged, p.asked)
		}
	}
}
