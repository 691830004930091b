//go:build linux

package slurm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fabricform/fabricform/transport"
)

// node is a node as slurmctld describes it.
type node struct {
	name, addr, hostname string
	states               []string // such as IDLE, MIXED, DRAIN
	allocated, total     int      // processors
	memory               int      // MiB, as slurm.conf says
	gpus                 int      // that Slurm hands out
	partitions           []string
	reason               string // why it is drained or down; "" if it is neither
	comment              string
	addrs                []netip.Addr
}

// nodeName matches names that Slurm's programs read as one node: without it, a name could be a list of nodes or a flag.
var nodeName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$`) })

// parseNodes reads the lines of `scontrol -o show node`: KEY=VALUE with spaces between them. The first of a key counts: only the last
// values are text that people wrote.
func parseNodes(text string) ([]node, error) {
	var out []node
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		v := map[string]string{}
		for word := range strings.FieldsSeq(line) {
			if key, value, is := strings.Cut(word, "="); is && v[key] == "" {
				v[key] = value
			}
		}
		if v["NodeName"] == "" {
			continue
		}
		if !nodeName().MatchString(v["NodeName"]) {
			return nil, fmt.Errorf("read scontrol's answer: %q is not the name of a node", v["NodeName"])
		}
		if seen[v["NodeName"]] { // a comment may have several lines
			return nil, fmt.Errorf("read scontrol's answer: it has node %s twice: look for a comment of a node with a line break and NodeName=", v["NodeName"])
		}
		seen[v["NodeName"]] = true
		n := node{name: v["NodeName"], addr: v["NodeAddr"], hostname: v["NodeHostName"], states: strings.FieldsFunc(v["State"], func(r rune) bool { return r == '+' })}
		n.allocated, _ = strconv.Atoi(v["CPUAlloc"]) // 0 for an unknown number: Slurm refuses a step that does not fit
		n.total, _ = strconv.Atoi(v["CPUTot"])
		n.memory, _ = strconv.Atoi(v["RealMemory"])
		n.gpus = gpus(v["Gres"])
		n.partitions = strings.Split(v["Partitions"], ",")
		n.reason, n.comment = written(line)
		out = append(out, n)
	}
	return out, nil
}

// reasonBy matches who gave a reason and when, as slurm_sprint_node_table of Slurm's src/api/node_info.c prints it behind the reason.
var reasonBy = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(` \[[^][ ]+@\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\]`)
})

// gpus counts the GPUs of a list of generic resources, such as gpu:h100:8(S:0-1),nic:2 (gres.conf(5)).
func gpus(gres string) (n int) {
	inParentheses := 0
	for entry := range strings.FieldsFuncSeq(gres, func(r rune) bool {
		switch r {
		case '(':
			inParentheses++
		case ')':
			inParentheses--
		}
		return r == ',' && inParentheses == 0
	}) {
		name, _, _ := strings.Cut(entry, "(")
		if f := strings.Split(name, ":"); f[0] == "gpu" && len(f) > 1 {
			count, _ := strconv.Atoi(f[len(f)-1]) // 0 for one that is not understood: no GPU is asked for
			n += count
		}
	}
	return n
}

// key matches the name of a further value.
var key = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` [A-Za-z]+=`) })

// written returns what people wrote of a node: the reason and the comment at the end of its line, in this order.
func written(line string) (reason, comment string) {
	rest := line
	if _, after, has := strings.Cut(line, " Reason="); has {
		reason, rest = after, ""
		if by := reasonBy().FindStringIndex(after); by != nil {
			reason, rest = after[:by[0]], after[by[1]:]
		}
	}
	if _, after, has := strings.Cut(rest, " Comment="); has {
		comment = after
		if at := key().FindStringIndex(after); at != nil {
			comment = after[:at[0]]
		}
	}
	return strings.TrimSpace(reason), strings.TrimSpace(comment)
}

type nodes []node

func listNodes(ctx context.Context) (nodes, error) {
	text, err := ask(ctx, "scontrol", "-o", "-a", "show", "node")
	if err != nil {
		return nil, err
	}
	return parseNodes(text)
}

// listedFor is how long a list of all nodes is used for further hosts: 10,000 nodes take slurmctld and us a while. Slurm refuses what has
// changed since.
const listedFor = 5 * time.Second

// listing is the latest list of all nodes.
type listing struct {
	all nodes
	at  time.Time // zero: none
}

// own returns the node with text of its own: that of a list is part of what scontrol printed of all nodes.
func (n node) own() node {
	for _, s := range []*string{&n.name, &n.addr, &n.hostname, &n.reason} {
		*s = strings.Clone(*s)
	}
	n.states, n.partitions = slices.Clone(n.states), slices.Clone(n.partitions)
	for _, list := range [][]string{n.states, n.partitions} {
		for i := range list {
			list[i] = strings.Clone(list[i])
		}
	}
	return n
}

// silence is how long a node may count as one that does not respond: after a resume, each does until slurmctld has asked it.
const silence = 10 * time.Second

// listResponding is listNodes. It waits a little for those nodes with one of the addresses that do not respond.
func listResponding(ctx context.Context, addresses []string) (nodes, error) {
	for end := time.Now().Add(silence); ; {
		all, err := listNodes(ctx)
		if err != nil || time.Now().After(end) || !all.waitFor(ctx, addresses) {
			return all, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookEvery / 2):
		}
	}
}

// waitFor reports whether one of the nodes with these addresses may respond in a moment.
func (all nodes) waitFor(ctx context.Context, addresses []string) bool {
	return slices.ContainsFunc(addresses, func(a string) bool {
		n, found := all.find(ctx, a)
		return found && n.silent() && !n.has("DOWN")
	})
}

// find returns the node of a host's address: by its name, or else by one of its addresses.
func (all nodes) find(ctx context.Context, address string) (node, bool) {
	i := slices.IndexFunc(all, func(n node) bool { return n.name == address })
	if i < 0 {
		i = slices.IndexFunc(all, func(n node) bool { return n.is(address) })
	}
	if at, err := netip.ParseAddr(address); i < 0 && err == nil {
		i = slices.IndexFunc(all, func(n node) bool { return n.resolve(ctx) == nil && slices.Contains(n.addrs, at.Unmap()) })
	}
	if i < 0 {
		return node{}, false
	}
	return all[i], true
}

// is reports whether a host's address names this node.
func (n node) is(address string) bool {
	return address == n.name || address == n.addr || address == n.hostname
}

func (n node) has(state string) bool {
	return slices.ContainsFunc(n.states, func(s string) bool { return strings.Trim(s, "*~#!%$@^-") == state })
}

// silent reports whether slurmctld waits for an answer of the node's slurmd.
func (n node) silent() bool { return n.has("NOT_RESPONDING") }

// busy reports whether all processors are allocated, so that a step needs a partition that shares them.
func (n node) busy() bool { return n.total > 0 && n.allocated >= n.total }

// unusable returns why no job can start on the node, whoever asks; nil if one can.
func (n *node) unusable(t transport.Target) error {
	e := &transport.Error{Host: t.Name, Op: "reach node " + n.name}
	switch {
	case n.has("DOWN"), n.silent(), n.has("FAIL"), n.has("POWERED_DOWN"):
		e.Err, e.Hint = fmt.Errorf("its state is %s%s", strings.Join(n.states, "+"), because(n.reason)), "check the node and its slurmd"
	case n.has("DRAIN"):
		e.Err, e.Hint = fmt.Errorf("it is drained%s, and Slurm starts nothing on a drained node", because(n.reason)),
			fmt.Sprintf("when its reason is gone, run scontrol update nodename=%s state=undrain; to repair it, reserve it first (docs/slurm.md, \"Repair a drained node\")", n.name)
	case n.has("RESERVED"), n.has("MAINTENANCE"), n.has("MAINT"):
		if t.Slurm.Reservation != "" {
			return nil
		}
		e.Err, e.Hint = errors.New("it is reserved"), "set slurm.reservation to the reservation's name, if it is for this work"
	default:
		return nil
	}
	return e
}

// reportPrefix begins a comment by which `fabricform health -slurm` reports the verdict of its last change (package health).
const reportPrefix = "fabricform: health: "

// heldBy returns an error for a node that jobs hold, with what its own check has reported.
func (n node) heldBy(jobs []string) error {
	e := &transport.BusyError{Jobs: jobs}
	if report, is := strings.CutPrefix(n.comment, reportPrefix); is {
		at, said, _ := strings.Cut(report, " ")
		if since, err := time.Parse(time.RFC3339, at); err == nil {
			e.Said, e.Age = neutral(said), max(time.Since(since), 0)
		}
	}
	return e
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", neutral(reason))
}

// resolve looks up the addresses of the node, from which its helper will dial back.
func (n *node) resolve(ctx context.Context) error {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", n.addr)
	for _, a := range found {
		if a = a.Unmap(); !a.IsLoopback() {
			n.addrs = append(n.addrs, a)
		}
	}
	if err == nil && len(n.addrs) == 0 {
		err = errors.New("it has none")
	}
	if err != nil {
		return fmt.Errorf("look up the address of node %s (%s): %w", n.name, n.addr, err)
	}
	return nil
}

// localAddress returns the address of this machine from which it reaches another one.
func localAddress(to netip.Addr) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9))) // sends nothing
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the way to %s: %w", to, err)
	}
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), c.Close()
}

// controllers returns the addresses of the cluster's controllers, to which each slurmd must keep a way. One that this machine cannot look up, or
// knows by a loopback address only (Debian's installer writes 127.0.1.1 for the machine itself), is left out: helpers dial back to this machine.
func controllers(ctx context.Context) (out []string, err error) {
	text, err := ask(ctx, "scontrol", "show", "config")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		key, value, is := strings.Cut(line, "=")
		if !is || !strings.HasPrefix(key, "SlurmctldHost[") {
			continue
		}
		c := node{name: strings.TrimSpace(value), addr: strings.TrimSpace(value)}
		if name, addr, has := strings.Cut(c.name, "("); has { // as slurm.conf writes it: NAME(ADDRESS)
			c.name, c.addr = name, strings.TrimSuffix(addr, ")")
		}
		if c.resolve(ctx) == nil {
			for _, a := range c.addrs {
				out = append(out, a.String())
			}
		}
	}
	return out, nil
}

// job is a job that holds processors of a node.
type job struct{ id, state, name string }

// completing reports whether only the end of the job is left, such as its epilog.
func (j job) completing() bool { return j.state == "CG" }

func ids(jobs []job) (out []string) {
	for _, j := range jobs {
		out = append(out, j.id)
	}
	return out
}

// jobsOn returns the jobs that hold processors of the nodes. Only the names of root's jobs and of our user's count: other users choose any, such
// as ours, or lines that look like a job's. So each line of squeue begins with a random word.
func jobsOn(ctx context.Context, nodes ...string) (out []job, err error) {
	word := rand.Text()
	for part := range bundles(nodes, func(name string) string { return name }) {
		text, err := ask(ctx, "squeue", "--noheader", "--all", "--states=RUNNING,SUSPENDED,COMPLETING,CONFIGURING,STOPPED",
			"--nodelist="+strings.Join(part, ","), "--format="+word+" %A %t %U %j")
		if err != nil {
			return out, err
		}
		for line := range strings.Lines(text) {
			fields := append(strings.SplitN(strings.TrimSpace(line), " ", 5), "", "", "", "")
			j, user := job{id: fields[1], state: fields[2]}, fields[3]
			if user == strconv.Itoa(root) || user == strconv.Itoa(os.Getuid()) {
				j.name = fields[4]
			}
			if fields[0] == word && strings.Trim(j.id, "0123456789") == "" && j.id != "" && !slices.ContainsFunc(out, func(o job) bool { return o.id == j.id }) {
				out = append(out, j)
			}
		}
	}
	return out, nil
}

// How many nodes one program is given: Linux limits an argument to 128 KiB (MAX_ARG_STRLEN), and munge's credential of all secrets of a step to 1 MiB.
const (
	mostNodes = 4096
	mostNames = 100 << 10 // bytes
)

// bundles divides things with the names of nodes, so that the names of each part fit into one argument.
func bundles[T any](all []T, name func(T) string) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		from, size := 0, 0
		for i, one := range all {
			if size += len(name(one)) + 1; i-from == mostNodes || i > from && size > mostNames {
				if !yield(all[from:i]) {
					return
				}
				from, size = i, len(name(one))+1
			}
		}
		if from < len(all) {
			yield(all[from:])
		}
	}
}

// epilogPatience is how long jobs that are completing may take before they count as jobs that run.
const epilogPatience = 30 * time.Second

// jobsStaying is jobsOn, but it waits for jobs that are completing: our own of a moment ago is one.
func jobsStaying(ctx context.Context, nodes ...string) ([]job, error) {
	for end := time.Now().Add(epilogPatience); ; {
		jobs, err := jobsOn(ctx, nodes...)
		if err != nil || len(jobs) == 0 || !slices.ContainsFunc(jobs, job.completing) || time.Now().After(end) {
			return jobs, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookEvery / 2):
		}
	}
}

// whereToRun returns what to do if Slurm's programs are missing.
func whereToRun(err error) string {
	if errors.Is(err, exec.ErrNotFound) {
		return "run fabricform on a login or controller node of the cluster, which has Slurm's programs and munge"
	}
	return ""
}
