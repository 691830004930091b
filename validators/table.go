package validators

import (
	"context"
	"slices"
)

// Check names a check.
type Check string

// The checks of the table.
const (
	CheckLink     Check = "link"
	CheckCabling  Check = "cabling"
	CheckPing     Check = "ping"
	CheckQoS      Check = "qos"
	CheckTCP      Check = "tcp"
	CheckVerbs    Check = "verbs"
	CheckWorkload Check = "workload"
	CheckLogin    Check = "login"
	CheckNCCL     Check = "nccl"
	CheckParity   Check = "parity"
	CheckBond     Check = "bond"
)

// CheckBoot checks what came up after a reboot. It is not in the table, because it needs a plan.
const (
	CheckBoot Check = "boot"

	Rebooted Item = "reboot"
	CameUp   Item = "resource"

	MetricResources Metric = "resources"
)

// BootState is what a host's last reboot says about its configuration. It is what a result of the item Rebooted
// found.
type BootState string

// The states.
const (
	CameUpAsDeclared BootState = "came_up_as_declared"
	AsDeclared       BootState = "as_declared"    // but no boot ID was recorded when the host was changed
	NeverApplied     BootState = "never_applied"  // no apply has changed the host
	NotRebooted      BootState = "not_rebooted"   // since the last apply
	RebootUnknown    BootState = "reboot_unknown" // no boot ID was recorded by the last apply
)

// Row is one check.
type Row struct {
	Name   Check
	Proves string // what it proves, for help and documents
	Needs  string // what the hosts need for it
	// OfHosts: the check is about hosts, not paths, and is not run if one link or network is selected.
	OfHosts bool
	// run does the check. It adds results about one path to its trial, and returns all others.
	run func(r *run, ctx context.Context, trials []*trial) []Result
}

// Table has all checks, in the order in which they run. A new check is a file and a row here.
var Table = []Row{
	{CheckLink, "carrier at both ends, the declared speed, one MTU", "nothing", false, (*run).links},
	{CheckCabling, "frames of each declared port arrive at the declared other end", "nothing", false, (*run).cables},
	{CheckPing, "small and full-size packets come back, over the declared ports", "addresses in one subnet, or a route", false,
		(*run).pings},
	{CheckQoS, "pings of the NICs' class are counted on its priority at both ends, which have PFC if it is lossless",
		"a `qos` block, and NICs that count packets by priority", false, (*run).classes},
	{CheckTCP, "throughput in both directions; links that share a port also together", "the same", false, (*run).tcp},
	{CheckVerbs, "RDMA bandwidth and latency with perftest", "RDMA devices at both ends, perftest", false, (*run).verbs},
	{CheckWorkload, "over links and networks with a declared distance or a `workload`: the measured round trip, jitter and loss beside the declared ones, the model's rates beside the measured ones, and the bounds of the workload",
		"a measured round trip (`ping`), and for the rates `tcp` and `verbs`", false, (*run).workloads},
	{CheckBond, "each member of a bond works and carried packets, and LACP's partner is the declared one", "a `bond` block", false,
		(*run).bonds},
	{CheckLogin, "each host of a `login_mesh` logs in to all the others with ssh, as the user of the mesh", "a `login_mesh`", true,
		(*run).logins},
	{CheckNCCL, "the device, GID and interface that NCCL uses; with `run`, collectives on all GPUs",
		"nothing; with `run`, GPUs and either torch, or nccl-tests and a `login_mesh` or Slurm", true, (*run).nccl},
	{CheckParity, "hosts have the same kernel, driver stack, firmware and libraries", "several hosts", true, (*run).parity},
}

// Optional reports whether a check of paths has no results without the blocks that it is about.
func (c Check) Optional() bool { return c == CheckQoS || c == CheckBond || c == CheckWorkload }

// judge runs the selected checks. Results about one path are added to its trial; judge returns all others.
func (r *run) judge(ctx context.Context, trials []*trial) (out []Result) {
	for _, row := range Table {
		asked := len(r.options.Only) == 0 || slices.Contains(r.options.Only, row.Name)
		beyond := row.OfHosts && r.options.Link != "" // one link is asked for
		if asked && !beyond {
			out = append(out, row.run(r, ctx, trials)...)
		}
	}
	return out
}

// Checks returns the names of the table's checks.
func Checks() (names []Check) {
	for _, c := range Table {
		names = append(names, c.Name)
	}
	return names
}
