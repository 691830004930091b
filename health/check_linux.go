package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// Check compares the host with what all fabrics applied last on it, by the planner that plans an apply. It only reads.
func Check(ctx context.Context, r host.Reader, kinds resource.Kinds, store *checkpoint.Store) Verdict {
	v, err := check(ctx, r, kinds, store)
	if err != nil {
		v = unknown(err)
	}
	v.Time = time.Now().UTC()
	return v
}

func check(ctx context.Context, r host.Reader, kinds resource.Kinds, store *checkpoint.Store) (v Verdict, err error) {
	open, _, err := store.Pending()
	if err != nil {
		return v, err
	}
	if open != nil {
		return v, fmt.Errorf("a transaction of fabric %q is open: the host may be half-changed", open.Fabric)
	}
	all, err := store.Applied()
	if err != nil {
		return v, err
	}
	if len(all) == 0 {
		return v, errors.New("nothing is known to be applied here: run fabricform apply with this release")
	}
	v.State, v.Counters = Healthy, map[string]uint64{}
	for _, a := range all {
		if err := v.compare(ctx, r, kinds, a); err != nil {
			return v, fmt.Errorf("fabric %s: %w", a.Fabric, err)
		}
	}
	if len(v.Problems) > 0 {
		v.State = Unhealthy
	} else if v.Compared == 0 {
		return v, errors.New("nothing that was applied can be compared: " + strings.Join(v.Notes, "; "))
	}
	// An apply that began meanwhile has changed the host.
	if open, _, err = store.Pending(); err == nil && open != nil {
		err = fmt.Errorf("a transaction of fabric %q was opened during the check", open.Fabric)
	}
	return v, err
}

// compare adds the differences between the host and what a fabric applied.
func (v *Verdict) compare(ctx context.Context, r host.Reader, kinds resource.Kinds, a *resource.Applied) error {
	known := slices.DeleteFunc(slices.Clone(kinds), func(k resource.Kind) bool { return !k.Local })
	var wanted []resource.Resource
	for _, w := range a.Resources {
		if _, ok := known.Lookup(w.Addr.Kind); ok {
			wanted = append(wanted, w)
		} else {
			v.Notes = append(v.Notes, fmt.Sprintf("%s was not compared: this build does not know %s", title(w.Addr), w.Addr.Kind))
		}
	}
	for _, addr := range a.Uncovered {
		v.Notes = append(v.Notes, title(addr)+" was not compared: it contains sensitive values")
	}
	if len(wanted) == 0 {
		return nil
	}
	snap, err := known.Gather(ctx, r, resource.Query{Connection: facts.Connection{None: true}, Resources: wanted})
	if err != nil {
		return err
	}
	records, err := readRecords(ctx, r, known)
	if err != nil {
		return err
	}
	for _, w := range wanted { // a spec of another release is no difference of the host
		kind, _ := known.Lookup(w.Addr.Kind)
		var spec *resource.SpecError
		if _, err := kind.Plan(snap, w.Spec); errors.As(err, &spec) {
			return err
		}
	}
	in := planner.HostInput{Name: wanted[0].Addr.Host, Resources: wanted, Records: records, Snapshot: snap, Management: true}
	for _, h := range planner.Make(a.Fabric, known, []planner.HostInput{in}).Hosts {
		for _, p := range h.Problems {
			v.Problems = append(v.Problems, title(p.Addr)+": "+p.Message)
		}
		for _, act := range h.Actions {
			if act.Op != planner.Create && act.Op != planner.Update {
				continue // what was undone, or is only disturbed, is as it was applied
			}
			for _, c := range act.Changes {
				v.Problems = append(v.Problems, title(act.Resource.Addr)+": "+c.String())
			}
		}
	}
	v.Compared += len(wanted)
	for _, addr := range a.Cabled {
		at := slices.IndexFunc(wanted, func(w resource.Resource) bool { return w.Addr == addr })
		if at < 0 {
			continue
		}
		kind, _ := known.Lookup(addr.Kind)
		link := snap.Link(kind.Device(snap, wanted[at].Spec))
		if link == nil {
			continue // a problem says so
		}
		if link.Up && !link.Carrier {
			v.Problems = append(v.Problems, fmt.Sprintf("%s: %s has no carrier", title(addr), link.Name))
		}
		v.count(ctx, r, link.Name, snap)
	}
	return nil
}

// title names a resource in one line of a verdict. The host is this one.
func title(a resource.Addr) string { return a.Kind + "." + a.Name }

// readRecords reads the ownership records, with the atoms of these kinds alone: what other kinds own is not compared.
func readRecords(ctx context.Context, r host.Reader, kinds resource.Kinds) (out []resource.Record, err error) {
	found, err := r.Records(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		var record resource.Record
		if err := json.Unmarshal(found[name], &record); err != nil || record.Version != resource.RecordVersion {
			return nil, fmt.Errorf("the ownership record of fabric %q is damaged, or another release wrote it", name)
		}
		maps.DeleteFunc(record.Atoms, func(a resource.Atom, _ resource.Owned) bool { _, ok := kinds.Lookup(a.Kind()); return !ok })
		out = append(out, record)
	}
	return out, nil
}

// Counters of a port that rise when a cable or a module is bad: of the kernel (Documentation/ABI/testing/sysfs-class-net and
// sysfs-class-net-statistics) and of the InfiniBand core (sysfs-class-infiniband).
var (
	netCounters  = []string{"carrier_down_count", "statistics/rx_crc_errors", "statistics/rx_errors", "statistics/tx_errors"}
	rdmaCounters = []string{"link_downed", "symbol_error", "port_rcv_errors", "local_link_integrity_errors"}
)

// count adds the counters of a device and of its RDMA ports. One that the driver does not have is left out.
func (v *Verdict) count(ctx context.Context, r host.Reader, netdev string, snap *facts.Snapshot) {
	read := func(name, path string) {
		if n, err := strconv.ParseUint(host.Text(ctx, r, path), 10, 64); err == nil {
			v.Counters[name] = n
		}
	}
	for _, c := range netCounters {
		read(netdev+" "+strings.TrimPrefix(c, "statistics/"), "/sys/class/net/"+netdev+"/"+c)
	}
	for _, d := range snap.RDMA {
		if d.Netdev == netdev {
			for _, c := range rdmaCounters {
				read(d.Name+" "+c, fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/counters/%s", d.Name, max(d.Port, 1), c))
			}
		}
	}
}
