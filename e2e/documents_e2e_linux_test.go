package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocumentsInALab runs the commands of each page that is marked for it, in the page's order, and compares the outputs exactly,
// with times, rates, IDs and dates masked. Its first file is the fabric of the lab. The hosts are reached as on the page: by name, as
// the user admin, with OpenSSH, known_hosts and sudo.
func TestDocumentsInALab(t *testing.T) {
	for _, path := range documents(t) {
		if slices.Contains(readPage(t, path), "<!-- "+markLab+" -->") {
			t.Run(filepath.Base(path), func(t *testing.T) {
				together(t)
				runPage(t, path)
			})
		}
	}
}

func runPage(t *testing.T, path string) {
	page := readPage(t, path)
	all := blocks(page)
	first := slices.IndexFunc(all, func(b fenced) bool { return b.file != "" && b.kind == "hcl" })
	if first < 0 {
		t.Fatal("the page has no file of HCL: write its name above the block, as `fabric.hcl`:")
	}
	r := newReader(t, strings.Join(all[first].lines, "\n")+"\n")
	type edit struct {
		from, to int // lines of the page
		lines    []string
	}
	var edits []edit
	for _, b := range all {
		switch {
		case b.file != "":
			r.write(b.file, strings.Join(b.lines, "\n")+"\n")
		case b.kind != "sh" || strings.HasPrefix(b.mark, markNeeds) || strings.HasPrefix(b.mark, markRunBy):
		case b.mark == markHosts:
			for _, host := range r.hosts {
				inside(t, r.state, r.fabric, host, "sh", "-ec", strings.Join(b.lines, "\n"))
			}
		default:
			got := r.session(b.lines)
			if d := cmp.Diff(masked(strings.Join(b.lines, "\n")), masked(strings.Join(got, "\n"))); d != "" {
				edits = append(edits, edit{b.first, b.first + len(b.lines), got})
				if !*update {
					t.Errorf("%s:%d is not what the commands print; go test ./e2e -run %s -update rewrites it\n%s", path, b.first, t.Name(), d)
				}
			}
		}
	}
	if !*update {
		return
	}
	for _, e := range slices.Backward(edits) {
		page = slices.Replace(page, e.from, e.to, e.lines...)
	}
	if err := os.WriteFile(path, []byte(strings.Join(page, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// reader is somebody who types what a page says, on a laptop in the management network of the lab's hosts.
type reader struct {
	t                 *testing.T
	state, dir, shell string
	fabric            string // the fabric of the lab, apart from the file that the page may change
	hosts             []string
}

func newReader(t *testing.T, fabric string) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir()}
	r.fabric = filepath.Join(r.dir, "lab")
	for _, folder := range []string{"lab", "work", "bin", "home/.ssh"} {
		if err := os.MkdirAll(filepath.Join(r.dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.put("lab/fabric.hcl", fabric)
	program, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "bin/fabricform"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	r.state = labUpFor(t, r.fabric)
	r.shell = r.login()
	return r
}

// login lets the reader in at the hosts, by name, and returns the words before a command that make it run as the reader's.
func (r *reader) login() string {
	r.t.Helper()
	folder := filepath.Join(r.state, "fabricform", "lab", "default")
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			r.t.Fatal(err)
		}
		return string(raw)
	}
	var lab struct {
		Net   struct{ PID int }
		Hosts map[string]struct{ Address string }
	}
	if err := json.Unmarshal([]byte(read("lab.json")), &lab); err != nil {
		r.t.Fatal(err)
	}
	known, names := read("known_hosts"), "127.0.0.1 localhost\n"
	for name, h := range lab.Hosts {
		r.hosts = append(r.hosts, name)
		known = strings.Replace(known, h.Address+" ", name+" ", 1)
		names += h.Address + " " + name + "\n"
		inside(r.t, r.state, r.fabric, name, "sh", "-ec", "useradd -m -d /home/admin -s /bin/sh -p '*' admin; mkdir -p /home/admin/.ssh; "+
			"cp /run/fabricform-lab/authorized_keys /home/admin/.ssh/; chown -R admin /home/admin/.ssh; echo 127.0.1.1 "+name+" >> /etc/hosts")
	}
	slices.Sort(r.hosts)
	r.put("home/.ssh/id_ed25519", read("id_ed25519"))
	r.put("home/.ssh/known_hosts", known)
	r.put("names", names)
	me, err := user.Current()
	if err != nil {
		r.t.Fatal(err)
	}
	// ssh takes the home from the system's list of users; the rest takes it from HOME.
	return fmt.Sprintf(`nsenter --target %d --net unshare --mount --propagation private sh -c 'mount -t tmpfs tmpfs %[2]s && mkdir %[2]s/.ssh && mount --bind %[3]s/home/.ssh %[2]s/.ssh && mount --bind %[3]s/names /etc/hosts && cd %[3]s/work && exec env -u XDG_CACHE_HOME -u SSH_AUTH_SOCK XDG_STATE_HOME=%[3]s/home HOME=%[3]s/home PATH=%[3]s/bin:"$PATH" NO_COLOR=1 sh -c "$0"'`,
		lab.Net.PID, me.HomeDir, r.dir)
}

func (r *reader) put(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *reader) write(name, text string) { r.t.Helper(); r.put(filepath.Join("work", name), text) }

// session runs the commands of a block and returns it with what they print. Lines that begin with "$ " are commands; without
// any, all lines are commands whose outputs are not shown.
func (r *reader) session(lines []string) (out []string) {
	r.t.Helper()
	shown := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "$ ") })
	for _, line := range lines {
		command, is := strings.CutPrefix(line, "$ ")
		if shown && !is {
			continue
		}
		out = append(out, line)
		cmd := exec.Command("sh", "-c", r.shell+` "$1" 2>&1`, "sh", command)
		said, err := cmd.CombinedOutput()
		r.t.Logf("$ %s\n%s", command, said)
		if err != nil {
			r.t.Errorf("%s: %v\n%s", command, err, said)
		}
		if text := strings.TrimRight(string(said), "\n"); shown && text != "" {
			out = append(out, strings.Split(text, "\n")...)
		}
	}
	return out
}
