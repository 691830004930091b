package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// mlnxQoS is what mlnx_qos -i (mlnx-tools) prints of a NIC that trusts the DSCP, with PFC on the priorities of pfc.
func mlnxQoS(trust, pfc string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "DCBX mode: OS controlled\nPriority trust state: %s\ndscp2prio mapping:\n", trust)
	for p := range 8 {
		fmt.Fprintf(&out, "\tprio:%d dscp:", p)
		for d := p*8 + 7; d >= p*8; d-- {
			fmt.Fprintf(&out, "%02d,", d)
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "Cable len: 7\nPFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n\tenabled     %s\n", pfc)
	return out.String() + "tc: 0 ratelimit: unlimited, tsa: vendor\n\t priority:  1\n"
}

// dcbShow is what iproute2's dcb app, apptrust and pfc show print of a NIC.
func dcbShow(app, order, pfc string) string {
	return "dscp-prio " + app + " \norder: " + order + " \npfc-cap 8 macsec-bypass off delay 7 \nprio-pfc " + pfc + " \n"
}

// TestATrafficClassIsJudgedByTheMapInTheFile, with mlnx_qos and with dcb; outputs that differ say nothing.
func TestATrafficClassIsJudgedByTheMapInTheFile(t *testing.T) {
	const five, three = "0:off 1:off 2:off 3:off 4:off 5:on 6:off 7:off", "0   0   0   1   0   0   0   0"
	const generic = "note: Traffic class: NCCL_IB_TC = 160 is DSCP 40. Under DSCP trust"
	priority := func(p int) *int { return &p }
	blocks := &fabric.Fabric{Classes: []*fabric.QoS{{Name: "lossless", DSCP: priority(40), Priority: priority(3)}}}
	for name, c := range map[string]struct {
		text string
		want string // the findings about the traffic class, in part
		not  string
	}{
		"right": {mlnxQoS("dscp", "0 0 0 0 0 1 0 0"), "which the NIC's map in line 10 leads to priority 5", "warning"},
		"no PFC on it": {mlnxQoS("dscp", three), "warning: The class has no PFC: NCCL_IB_TC = 160 is DSCP 40, and the NIC's map in line 10 leads it to priority 5, but PFC is on for " +
			"priority 3 (line 16).", ""},
		"no PFC at all":       {mlnxQoS("dscp", "0 0 0 0 0 0 0 0"), "but PFC is on for no priority (line 16)", ""},
		"trust in PCP":        {mlnxQoS("pcp", "0 0 0 0 0 1 0 0"), "warning: The NIC does not look at the DSCP: NCCL_IB_TC = 160 is DSCP 40, and the NIC trusts the PCP of VLAN tags instead (line 3)", "leads to priority 5"},
		"dcb":                 {dcbShow("CS5:5 AF31:3", "dscp", five), "which the NIC's map in line 2 leads to priority 5", "warning"},
		"dcb with a number":   {dcbShow("40:6 41:1", "dscp pcp", five), "warning: The class has no PFC: NCCL_IB_TC = 160 is DSCP 40, and the NIC's map in line 2 leads it to priority 6, but PFC is on for priority 5", ""},
		"dcb without it":      {dcbShow("AF31:3 EF:5", "dscp", five), "warning: The NIC has no priority for the class", ""},
		"dcb trusts PCP":      {dcbShow("CS5:5", "pcp dscp", five), "The NIC does not look at the DSCP", ""},
		"two that differ":     {dcbShow("CS5:5", "dscp", five) + dcbShow("CS5:3", "dscp", five), generic, "warning"},
		"two trusts":          {mlnxQoS("pcp", "0 0 0 0 0 1 0 0") + mlnxQoS("dscp", "0 0 0 0 0 1 0 0"), generic, "warning"},
		"PFC that differs":    {mlnxQoS("dscp", "0 0 0 0 0 0 0 0") + mlnxQoS("dscp", "0 0 0 0 0 1 0 0"), "leads to priority 5", "warning"},
		"two that agree":      {mlnxQoS("dscp", "0 0 0 0 0 1 0 0") + mlnxQoS("dscp", "0 0 0 0 0 1 0 0"), "leads to priority 5", "warning"},
		"nothing of the kind": {"order: two pizzas\nenabled 1\nprio-pfc 1:on 2:on 3:on 4:on 5:on 6:on 7:on 8:on\nprio:9 dscp:40\nprio:1 dscp:99\n", generic, "warning"},
	} {
		t.Run(name, func(t *testing.T) {
			said := ""
			for _, f := range Explain("notes.txt", "export NCCL_IB_TC=160\n"+c.text, nil, fabric.Invocation{}).Findings {
				if f.Name == "NCCL_IB_TC" {
					said += fmt.Sprintf("%s: %s: %s\n", f.Severity, f.Summary, f.Wrong)
				}
			}
			if !strings.Contains(said, c.want) || c.not != "" && strings.Contains(said, c.not) {
				t.Errorf("%s\nwant %q, and not %q", said, c.want, c.not)
			}
		})
	}
	for _, text := range []string{"export NCCL_IB_TC=0\n" + mlnxQoS("dscp", three), "export NCCL_IB_TC=$TC\n" + mlnxQoS("dscp", three),
		"export NCCL_IB_TC=160\n" + dcbShow("CS5:5", "dscp", five) + dcbShow("CS5:3", "dscp", five) + dcbShow("CS5:5", "dscp", five)} {
		if said := fmt.Sprint(Explain("notes.txt", text, nil, fabric.Invocation{}).Findings); strings.Contains(said, "PFC is on") || strings.Contains(said, "the NIC's map") {
			t.Errorf("%q: %s", text, said)
		}
	}
	for name, want := range map[string]int{"CS0": 0, "CS7": 56, "AF11": 10, "AF43": 38, "EF": 46, "63": 63} {
		if got, ok := codepoint(name); got != want || !ok {
			t.Errorf("%s is DSCP %d, %v", name, got, ok)
		}
	}
	for _, name := range []string{"CS8", "AF51", "AF14", "AF1", "64", "-1", ""} {
		if got, ok := codepoint(name); ok {
			t.Errorf("%q is DSCP %d", name, got)
		}
	}
	said := fmt.Sprint(Explain("notes.txt", "export NCCL_IB_TC=160\n"+mlnxQoS("dscp", "0 0 0 0 0 1 0 0"), blocks, fabric.Invocation{}).Findings)
	if !strings.Contains(said, "the NIC's map in line 10 leads to priority 5") {
		t.Errorf("what a file declares comes before what the NIC shows: %s", said)
	}
}
