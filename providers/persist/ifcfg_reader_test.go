package persist

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/netmanager"
)

// keyfile is a profile of NetworkManager: its values by section and key.
type keyfile map[string]string

func readKeyfile(text string) keyfile {
	out, section := keyfile{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if key, value, is := strings.Cut(line, "="); is {
			out[section+"."+key] = value
		} else if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
		}
	}
	return out
}

// compared are the keys that both forms have. Our own profiles also have priorities and names, and no defaults.
var compared = regexp.MustCompile(`^(connection\.(type|interface-name|master|slave-type)|ethernet\..*|bond\..*|vlan\.(id|flags|parent)|ipv[46]\.(address|route)[0-9]+(_options)?)$`)

// common returns the compared values in one form: interfaces by name, no metric of the kernel, no gateway where there is none.
func (k keyfile) common(names map[string]string) keyfile {
	out := keyfile{}
	for key, value := range k {
		if !compared.MatchString(key) {
			continue
		}
		switch {
		case names[value] != "":
			value = names[value]
		case strings.HasSuffix(key, "_options"):
			options := strings.Split(value, ",")
			slices.Sort(options)
			value = strings.Join(options, ",")
		case strings.Contains(key, ".route"):
			value = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(value, ",0"), ",1024"), ",0.0.0.0")
		}
		out[key] = value
	}
	return out
}

// TestNetworkManagerReadsIfcfg gives our ifcfg files to NetworkManager's reader (.ci/ifcfg-reader builds it): it understands what our profiles for
// NetworkManager say. It knows neither rules nor the protocol of a route, which are for the scripts, and takes a VLAN's map in another form.
func TestNetworkManagerReadsIfcfg(t *testing.T) {
	reader := os.Getenv("FABRICFORM_IFCFG_READER")
	if reader == "" {
		t.Skip("FABRICFORM_IFCFG_READER names the program of .ci/ifcfg-reader")
	}
	render := func(host string) map[string][]netmanager.File {
		out := map[string][]netmanager.File{}
		for name, spec := range map[string]Spec{"rich": rich(), "devices": devices()} {
			snap := managedHosts[host]
			if name == "devices" {
				snap = deviceHost(snap)
			}
			files, _, err := Files(snap, spec)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = files
		}
		return out
	}
	profiles := render(networkManager)
	read := 0
	for name, files := range render(ifcfg) {
		names, ours := map[string]string{}, map[string]keyfile{}
		for _, f := range profiles[name] {
			if netdev, is := strings.CutPrefix(filepath.Base(f.Path), "fabricform-lab-"); is && strings.HasSuffix(netdev, ".nmconnection") {
				k := readKeyfile(f.Text)
				netdev = strings.TrimSuffix(netdev, ".nmconnection")
				names[k["connection.uuid"]], ours[netdev] = netdev, k
			}
		}
		dir := t.TempDir()
		for _, f := range files {
			if kind, _, is := strings.Cut(filepath.Base(f.Path), "-fabricform-"); is && slices.Contains([]string{"ifcfg", "route", "route6"}, kind) {
				text := strings.NewReplacer("NM_CONTROLLED=no\n", "", " proto 251", "").Replace(f.Text)
				text = regexp.MustCompile(`(?m)^VLAN_EGRESS_PRIORITY_MAP=.*\n`).ReplaceAllString(text, "")
				if err := os.WriteFile(filepath.Join(dir, filepath.Base(f.Path)), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		found, err := filepath.Glob(filepath.Join(dir, "ifcfg-*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range found {
			said, err := exec.Command(reader, at).CombinedOutput()
			if err != nil || strings.Contains(string(said), "<warn>") {
				t.Errorf("%v: %s", err, said)
				continue
			}
			netdev := strings.TrimPrefix(filepath.Base(at), "ifcfg-fabricform-lab-")
			want, got := ours[netdev].common(names), readKeyfile(string(said)).common(nil)
			if len(want) < 3 {
				t.Fatalf("there is no profile of %s to compare with: %v", netdev, ours)
			}
			read++
			for key := range maps.Keys(want) {
				if got[key] != want[key] {
					t.Errorf("%s: %s is %q, want %q", filepath.Base(at), key, got[key], want[key])
				}
			}
			for key := range maps.Keys(got) {
				if _, is := want[key]; !is && (key != "connection.interface-name" || got[key] != netdev) { // a NIC that is declared by its MAC may get another name
					t.Errorf("%s: %s is %q, and we say nothing of it", filepath.Base(at), key, got[key])
				}
			}
		}
	}
	if read != 7 {
		t.Errorf("%d files were compared", read)
	}
}
