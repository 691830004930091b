package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/cabling"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/draft"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/nccl/env"
	"github.com/fabricform/fabricform/nccl/explain"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/view"
)

// importedFile is the file that import writes.
const importedFile = "fabric.hcl"

func importCommand(a *app) *cobra.Command {
	var d finding
	var out, slurm string
	var persist bool
	c := &cobra.Command{
		Use: "import -out DIR [FABRIC or HOST…]", Short: "Write the files of a fabric from running hosts; changes nothing", Args: cobra.ArbitraryArgs,
		Long: `import reads the hosts, finds out which port is cabled to which as discover does, and writes ` + importedFile + ` into a
new directory. HOST is user@address, or a name of ~/.ssh/config. Hosts that are alike become one block with
for_each. NICs that carry your own connection are never imported, and neither is what a host learned by DHCP or
router advertisements. What the files cannot say is listed in a comment.

The next plan is empty: NICs have persist = false, because other files configure them. With -persist, the
files keep what they declare, and the first plan shows the files that fabricform would write.

With -slurm, no host is read: the files have the nodes of a Slurm cluster and their addresses, without NICs.`,
		Example: "  fabricform import -out my-fabric root@gpu01 root@gpu02\n  fabricform plan my-fabric/\n" +
			"  scontrol show node | fabricform import -slurm - -out my-fabric",
	}
	a.fleetFlags(c)
	a.jsonFlag(c, "print what was imported as one JSON object")
	d.flags(c)
	c.Flags().StringVar(&out, "out", "", "write into this `directory`, which must not have files of a fabric")
	c.Flags().BoolVar(&persist, "persist", false, "let the files keep what they declare over a reboot")
	c.Flags().StringVar(&slurm, "slurm", "", "take the hosts from the output of scontrol show node in this `file`; - reads it from stdin")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(d.check(), canImport(out)); err != nil {
			return err
		}
		if slurm != "" {
			if len(args) > 0 {
				return errors.New("-slurm takes its hosts from Slurm: leave the other hosts out, or import them into a directory of their own")
			}
			return a.importSlurm(slurm, out)
		}
		return a.onNamedHosts(cmd.Context(), args, func(ctx context.Context, s *apply.Session) error {
			snaps, unreachable, err := a.readAll(ctx, s)
			if err != nil {
				return err
			}
			if len(unreachable) > 0 {
				return a.importedNothing(snaps, unreachable)
			}
			hosts, owner, err := a.importHosts(ctx, s, snaps, persist, nil)
			if err != nil {
				return err
			}
			report, err := a.discover(ctx, s, snaps, d)
			if err == nil && len(report.Raised) > 0 {
				hosts, owner, err = a.importHosts(ctx, s, snaps, persist, report) // NICs of new hosts are down, but their cables are known now
			}
			if err != nil {
				return err
			}
			a.err.PortsDown(report)
			return a.writeImport(s.Fabric, out, draft.Input{Fabric: cmp.Or(owner, fabricName(out)), Hosts: hosts, Report: report}, snaps)
		})
	}
	return c
}

// importedNothing says which hosts could not be read, so that no files are written, and how to import the others, if there are any.
func (a *app) importedNothing(read map[string]*facts.Snapshot, unreachable map[string]string) error {
	a.err.Unreachable(unreachable)
	if a.asJSON {
		if err := a.out.ImportJSON(view.Imported{Files: []string{}, Failed: unreachable}); err != nil {
			return err
		}
	}
	why := "nothing was written: files without these hosts would miss their links"
	if len(read) > 0 {
		why += "; to import the others, add -exclude=" + strings.Join(slices.Sorted(maps.Keys(unreachable)), ",")
	}
	return &exit{code: exitUnreachable, err: errors.New(why)}
}

// canImport returns an error unless new files can be written into the directory.
func canImport(dir string) error {
	if dir == "" {
		return errors.New("-out is missing: name the directory for the files")
	}
	switch st, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		if to, err := os.Readlink(dir); err == nil {
			return fmt.Errorf("-out %s: it is a link to %s, which does not exist", dir, to)
		}
		return canWrite(dir)
	case err != nil:
		return fmt.Errorf("-out %s: %w", dir, errors.Unwrap(err))
	case !st.IsDir():
		return fmt.Errorf("-out %s: it is a file, not a directory", dir)
	}
	if names, err := config.Files(dir); err == nil {
		return fmt.Errorf("-out %s: it has files of a fabric (%s), which import never changes: choose another directory", dir, filepath.Base(names[0]))
	}
	return canWrite(dir)
}

// canWrite returns an error unless files can be made in the directory, or in the first one above it that exists.
func canWrite(dir string) error {
	path, err := filepath.Abs(dir)
	for err == nil {
		var f *os.File
		if f, err = os.CreateTemp(path, ".fabricform-*"); err == nil {
			return errors.Join(f.Close(), os.Remove(f.Name()))
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(path) == path {
			break
		}
		path, err = filepath.Dir(path), nil
	}
	return fmt.Errorf("-out %s: nothing can be written there: %w", dir, cmp.Or(errors.Unwrap(err), err))
}

// fabricName is the name of a fabric in a directory: that of the directory, if files may declare it.
func fabricName(dir string) string {
	path, err := filepath.Abs(dir)
	if name := filepath.Base(path); err == nil && fabric.IsName(name) {
		return name
	}
	return "imported"
}

// importHosts asks all hosts for their models. owner is the fabric that owns values on them: the files must have its name, because no other
// fabric may change what it owns. found may be nil; NICs at its cables and in its segments are imported also if they are down without settings.
func (a *app) importHosts(ctx context.Context, s *apply.Session, snaps map[string]*facts.Snapshot, persist bool, found *cabling.Report) (out []draft.Host, owner string, err error) {
	cabled := cabledAt(found)
	var mu sync.Mutex
	owners := map[string]bool{}
	err = parallel.Do(0, s.Fabric.Hosts, func(_ int, h *fabric.Host) error {
		if snaps[h.Name] == nil {
			return nil // not chosen
		}
		a.err.Progressf("importing %s", h.Name)
		r, err := calls.Import.Call(ctx, s, h.Name, calls.ImportParams{Persist: persist, Cabled: cabled[h.Name]})
		if err == nil {
			err = r.Check()
		}
		if err != nil {
			return fmt.Errorf("import host %s: %w", h.Name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, name := range r.Owners {
			if name == apply.RaisedBy {
				return &exit{code: exitHeld, err: fmt.Errorf("host %s: another search has set ports up, which would be imported as up: try again when it has ended", h.Name)}
			}
			owners[name] = true
		}
		out = append(out, draft.Host{Asked: h.Name, Address: h.Address, User: h.SSH.User, Model: r.Host, Remarks: r.Remarks})
		return nil
	})
	slices.SortFunc(out, func(x, y draft.Host) int { return strings.Compare(x.Asked, y.Asked) })
	taken := map[string]bool{}
	for i := range out {
		out[i].Name = hostName(out[i].Asked, snaps[out[i].Asked].System, taken)
		for _, n := range out[i].Model.NICs {
			n.Host = out[i].Name
		}
	}
	slices.SortFunc(out, func(x, y draft.Host) int { return strings.Compare(x.Name, y.Name) })
	owner, several := ownerOf(owners)
	return out, owner, cmp.Or(err, several)
}

// cabledAt returns the devices at found cables and in found segments, by host.
func cabledAt(found *cabling.Report) map[string][]string {
	out := map[string][]string{}
	if found == nil {
		return out
	}
	for _, c := range found.Cables {
		for _, e := range c {
			out[e.Host] = append(out[e.Host], e.Netdevs...)
		}
	}
	for _, s := range found.Segments {
		for _, e := range s.Ends {
			out[e.Host] = append(out[e.Host], e.Netdevs...)
		}
	}
	return out
}

// ownerOf returns the one fabric that owns values on the hosts; "" if there is none.
func ownerOf(owners map[string]bool) (string, error) {
	names := slices.Sorted(maps.Keys(owners))
	switch len(names) {
	case 0:
		return "", nil
	case 1:
		return names[0], nil
	}
	return "", fmt.Errorf("several fabrics own values on these hosts (%s), and one set of files is for one fabric: choose hosts of one, or destroy the others",
		strings.Join(names, ", "))
}

// hostName is the short name that a host gives itself, or else how it was named. Hosts that share a name keep how they were named.
func hostName(asked string, s facts.System, taken map[string]bool) string {
	short, _, _ := strings.Cut(s.Hostname, ".")
	for _, name := range []string{short, asked, strings.Map(func(r rune) rune {
		if r < 0x80 && fabric.IsName("x"+string(r)) {
			return r
		}
		return '-'
	}, asked)} {
		if _, err := netip.ParseAddr(name); err != nil && fabric.IsName(name) && name != "localhost" && !taken[name] {
			taken[name] = true
			return name
		}
	}
	for n := len(taken) + 1; ; n++ {
		if name := fmt.Sprintf("host%d", n); !taken[name] {
			taken[name] = true
			return name
		}
	}
}

// maxLeftOut is how many blocks may turn out to be no valid declaration, before this is a mistake of the program.
const maxLeftOut = 100

// writeImport writes the files, after it has loaded them as any command does. A block that is an error, such as two cables in one subnet,
// becomes a comment that says so. from is the fabric of the hosts, as they were named.
func (a *app) writeImport(from *fabric.Fabric, dir string, in draft.Input, snaps map[string]*facts.Snapshot) error {
	path := filepath.Join(dir, importedFile)
	f, _, _, err := draftFiles(path, in)
	if err != nil {
		return err
	}
	deriveNCCL(f, &in, snaps)
	f, text, left, err := draftFiles(path, in)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("-out %s: %w", dir, err)
	}
	if err := writeNew(path, text); err != nil {
		return err
	}
	if a.asJSON {
		return a.out.ImportJSON(view.Imported{Files: []string{path}, Hosts: len(f.Hosts), Links: len(f.Links), Networks: len(f.Networks), LeftOut: left, Before: toDo(in)})
	}
	for _, why := range left {
		a.out.Linef("! left out: %s", why)
	}
	for _, what := range toDo(in) {
		a.out.Linef("! %s", what)
	}
	if in.Origin != "" {
		a.out.Linef("Wrote %s: %s.", path, view.Count(len(f.Hosts), "host"))
		return nil
	}
	a.out.Linef("Wrote %s: %s, %s, %s. Compare it with the hosts: %s", path, view.Count(len(f.Hosts), "host"), view.Count(len(f.Links), "link"),
		view.Count(len(f.Networks), "network"), fabric.Invocation{Path: dir, Dir: a.dir, Flags: a.labFlagOf(from, f)}.Hint("plan"))
	return nil
}

// toDo lists what a person must do on the hosts before the first apply, each once with the hosts that it is about.
func toDo(in draft.Input) (out []string) {
	hosts := map[string][]string{}
	for _, h := range in.Hosts {
		for _, r := range h.Remarks {
			if r.Before && !slices.Contains(hosts[r.Text], h.Name) {
				hosts[r.Text] = append(hosts[r.Text], h.Name)
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(hosts)) {
		out = append(out, strings.Join(hosts[text], ", ")+": "+text)
	}
	return out
}

// labFlagOf returns -lab for another fabric than the one of the command line: with the lab's name, unless that is also the other fabric's.
func (a *app) labFlagOf(from, other *fabric.Fabric) []string {
	if a.lab == ownLab && from.Name != other.Name {
		return []string{"-lab=" + from.Name}
	}
	return a.labFlag()
}

// draftFiles writes the text of the files and loads it. left says why blocks became comments. Which links and networks must do so is found
// out before blocks are folded, so that each is alone. Files whose folded blocks do not say the same stay as they were before.
func draftFiles(path string, in draft.Input) (f *fabric.Fabric, text []byte, left []string, err error) {
	in.Left, in.Flat = map[string]string{}, true
	if f, text, left, err = validDraft(path, &in); err != nil {
		return nil, nil, nil, err
	}
	in.Flat = false
	folded, short, without, err := validDraft(path, &in)
	if err == nil && asImported(folded, in) == nil && sameExtent(f, folded) {
		f, text, left = folded, short, without
	}
	for _, key := range slices.Sorted(maps.Keys(in.Left)) {
		left = append(left, leftOut(key)+": "+in.Left[key])
	}
	return f, text, left, asImported(f, in)
}

// validDraft writes text that loads. Blocks that are errors are added to in.Left, or, if it has no key for them, become comments; left says why.
func validDraft(path string, in *draft.Input) (f *fabric.Fabric, text []byte, left []string, err error) {
	text = draft.Write(*in)
	for range maxLeftOut {
		loaded, _, diags := config.Load(path, config.Options{Version: thisBuild().version, Overlay: map[string][]byte{path: text}})
		first := slices.IndexFunc(diags, func(d *hcl.Diagnostic) bool { return d.Severity == hcl.DiagError })
		if first < 0 {
			return loaded, text, left, nil
		}
		d := diags[first]
		why := d.Summary + ": " + d.Detail
		line := 0
		if d.Subject != nil {
			line = d.Subject.Start.Line
		}
		shorter, key := draft.CommentOut(text, line, why)
		switch {
		case key != "" && in.Flat && in.Left[key] == "":
			in.Left[key] = why
			text, left = draft.Write(*in), nil
		case shorter == nil:
			return nil, nil, nil, fmt.Errorf("nothing was written: the files would have an error that import does not expect, in line %d: %s", line, why)
		default:
			text, left = shorter, append(left, why)
		}
	}
	return nil, nil, nil, errors.New("nothing was written: the files would have too many errors")
}

// sameExtent reports whether both have the same links, networks and classes, and on each host the same NICs, routes, rules and RDMA devices.
func sameExtent(a, b *fabric.Fabric) bool {
	extent := func(f *fabric.Fabric) (out []string) {
		out = append(out, fmt.Sprint(len(f.Links), len(f.Networks), len(f.Classes)))
		for _, h := range f.Hosts {
			out = append(out, fmt.Sprint(h.Name, len(h.NICs), len(h.Routes), len(h.Policy), len(h.RXE), len(h.Sysctl), len(f.NCCLOf(h).Env)))
			for _, p := range h.Policy {
				out = append(out, fmt.Sprint(p.NIC.NIC, p.From, p.To, p.Table))
			}
			for _, r := range h.Routes {
				out = append(out, fmt.Sprint(r.NIC.NIC, r.To, r.Via))
			}
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(extent(a), extent(b))
}

// leftOut names what a key of draft.Input.Left stands for: of a NIC, only the addresses are left out.
func leftOut(key string) string {
	if nic, is := strings.CutPrefix(key, "nic "); is {
		return "addresses of " + nic
	}
	of, is := strings.CutPrefix(key, "env ")
	dot := strings.LastIndexByte(of, '.') // names of hosts may have dots
	switch {
	case !is || dot < 0:
		return key
	case dot == 0:
		return of[1:]
	}
	return of[dot+1:] + " of host " + of[:dot]
}

// deriveNCCL removes the settings of NCCL that follow from the files, and remarks on the others as explain does.
func deriveNCCL(f *fabric.Fabric, in *draft.Input, snaps map[string]*facts.Snapshot) {
	bare := *f
	bare.NCCL.Env = nil
	bare.Hosts = nil
	for _, h := range f.Hosts {
		h := *h
		h.NCCL.Env = nil
		bare.Hosts = append(bare.Hosts, &h)
	}
	said := map[string]bool{}
	for i := range in.Hosts {
		n := &in.Hosts[i].Model.NCCL
		if n.Env == nil {
			continue
		}
		var conf strings.Builder
		for _, name := range slices.Sorted(maps.Keys(n.Env)) {
			fmt.Fprintf(&conf, "%s=%s\n", name, n.Env[name])
		}
		h := bare.Host(in.Hosts[i].Name)
		derived, _ := nccl.Derive(&bare, h, nccl.AfterApply(h, snaps[in.Hosts[i].Asked]))
		for _, s := range derived {
			if n.Env[s.Name] == s.Value && n.Write == nil {
				delete(n.Env, s.Name)
			}
		}
		for _, finding := range explain.OfHost(f.Host(in.Hosts[i].Name), conf.String(), f, fabric.Invocation{}).Findings {
			_, stays := n.Env[finding.Name]
			if (finding.Severity < env.Note || stays) && !said[finding.Wrong] { // what is derived needs no note
				said[finding.Wrong] = true
				in.NCCL = append(in.NCCL, strings.TrimSpace(finding.Summary+": "+finding.Wrong+" "+finding.Instead))
			}
		}
	}
}

// asImported returns an error unless the files declare the NICs as they were imported, less what is left out.
func asImported(f *fabric.Fabric, in draft.Input) error {
	for _, h := range in.Hosts {
		for _, n := range h.Model.NICs {
			got := f.NIC(n.Ref())
			if got == nil {
				return fmt.Errorf("nothing was written: the files would not declare NIC %s; please report this", n.Ref())
			}
			for _, of := range []struct {
				attribute   string
				files, host any
				same        bool
			}{
				{"mtu", got.MTU, n.MTU, got.MTU == n.MTU},
				{"up", got.Up, n.Up, got.Up == n.Up},
				{"addresses", got.Addresses, n.Addresses, sameAddresses(got.Addresses, n.Addresses) || in.Left["nic "+n.Ref().String()] != ""},
			} {
				if !of.same {
					return fmt.Errorf("nothing was written: the files would declare %s of NIC %s as %v, and the host has %v; please report this",
						of.attribute, n.Ref(), of.files, of.host)
				}
			}
		}
	}
	return nil
}

func sameAddresses(a, b []netip.Prefix) bool {
	for _, p := range a {
		if !slices.Contains(b, p) {
			return false
		}
	}
	return len(a) == len(b)
}

// writeNew writes a file that must not exist.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Unwrap(err))
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
