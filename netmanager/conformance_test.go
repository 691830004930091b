package netmanager

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers/netif"
)

// kept changes each setting of a NIC that a manager's file holds.
var kept = map[string]func(*netif.NICSpec){
	"MTU":       func(s *netif.NICSpec) { s.MTU = 4200 },
	"Up":        func(s *netif.NICSpec) { s.Up = !s.Up },
	"Addresses": func(s *netif.NICSpec) { s.Addresses = s.Addresses[1:] },
}

// keptElsewhere says of each other field of a NIC's spec what keeps it for the next boot.
var keptElsewhere = map[string]string{
	"Select": "it finds the NIC", "UndoneMTU": "it is of one plan", "AddressesSet": "Link.Whole", "Device": "the device's own NIC", "Bond": "Link.Master",
	"AcceptRA": "sysctl.d, and where a manager overrides it, its file", "IPv6LinkLocal": "Link.AddrGen and sysctl.d", "Sysctl": "sysctl.d",
}

// TestEverySettingOfANICIsKept: a setting that no manager writes would be lost at a reboot.
func TestEverySettingOfANICIsKept(t *testing.T) {
	for f := range reflect.TypeFor[netif.NICSpec]().Fields() {
		if kept[f.Name] == nil && keptElsewhere[f.Name] == "" {
			t.Errorf("netif.NICSpec has %s: write it in the file of each manager, and add it to kept", f.Name)
		}
	}
}

// TestEachManager: what every row must do.
func TestEachManager(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range All {
		t.Run(m.Name, func(t *testing.T) {
			if seen[m.Name] || seen[m.Folder] || Lookup(m.Name) != m {
				t.Errorf("its name %q and its folder %q are its own", m.Name, m.Folder)
			}
			seen[m.Name], seen[m.Folder] = true, true
			found := Found{Claims: map[string]Claim{}}
			if m.Detect(t.Context(), etc(t, nil), []host.Link{rail().Link}, &found) || len(found.Claims) > 0 {
				t.Errorf("on a host without it: %+v", found)
			}
			l := rail()
			l.Manager = m
			if m.Front {
				l.Behind = networkd
			}
			for name, change := range kept {
				other := l
				if change(&other.NICSpec); reflect.DeepEqual(m.Render([]Link{l}), m.Render([]Link{other})) {
					t.Errorf("its files are the same with another %s", name)
				}
			}
			stem, text, main := l.Stem(), "", false
			if m.Stem != nil {
				stem = m.Stem(l)
			}
			for _, f := range m.Render([]Link{l}) {
				if path.Dir(f.Path) != m.Folder || host.OwnFile(f.Path) != nil || !Ours(f.Text, l.Fabric) {
					t.Errorf("%s is no file of ours in %s", f.Path, m.Folder)
				}
				main = main || f.Path == m.File(l)
				text += f.Text
			}
			if !main || m.Holds == nil && !strings.Contains(path.Base(m.File(l)), stem) || m.Reports != nil && !strings.Contains(path.Base(m.Reports(l)), stem) {
				t.Errorf("%s: its name does not hold %s", m.File(l), stem)
			}
			for _, says := range []string{"9000", "10.20.9.1", "fd00:21::1", "10.30.0.0/16", "10102"} {
				if !strings.Contains(text, says) {
					t.Errorf("%s is not kept:\n%s", says, text)
				}
			}
		})
	}
}

// TestAManagerIsOneFileAndOneRow adds the manager of docs/adding-a-provider.md as that page says.
func TestAManagerIsOneFileAndOneRow(t *testing.T) {
	page, err := os.ReadFile("../docs/adding-a-provider.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Adding a network manager\n")
	_, code, _ := strings.Cut(section, "```go\n")
	code, _, found := strings.Cut(code, "```")
	table, err := os.ReadFile("netmanager.go")
	if err != nil || !found {
		t.Fatal(err, "the page has no section with code")
	}
	row := strings.Replace(string(table), "ifcfg}", "ifcfg, toy}", 1)
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	for name, text := range map[string]string{"toy.go": code, "netmanager.go": row} {
		at, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][at] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", filepath.Join(dir, "overlay.json"), "-run", "^TestEachManager$", "-v", ".").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestEachManager/toy") {
		t.Errorf("%v\n%s", err, out)
	}
}
