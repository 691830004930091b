package explain

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

const (
	ibstatDown = "CA 'rocep216s0f0'\n\tCA type:\n\tNumber of ports: 1\n\tFirmware version: 1.50\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Disabled\n\t\tRate: 100\n\t\tBase lid: 1\n\t\tSM lid: 0\n\t\tLink layer: Ethernet\n"
	ibstatInit = "CA 'mlx5_0'\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Initializing\n\t\tPhysical state: LinkUp\n\t\tSM lid: 0\n\t\tLink layer: InfiniBand\n"
	ibstatus   = "Infiniband device 'mlx5_0' port 1 status:\n\tdefault gid:\t fe80:0000:0000:0000:88e9:a4ff:ff4c:2bdc\n\tbase lid:\t 0x22\n\tsm lid:\t 0x47\n\tstate:\t 4: ACTIVE\n\tphys state:\t 5: LinkUp\n\trate:\t 200 Gb/sec (4X HDR)\n\tlink_layer:\t InfiniBand\n\n" +
		"Infiniband device 'mlx5_1' port 1 status:\n\tstate:\t 4: ACTIVE\n\tlink_layer:\t Ethernet\n"
	devinfo = "hca_id:\tmlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t28.39.1002\n\tphys_port_cnt:\t\t\t1\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t1024 (3)\n\t\t\tsm_lid:\t\t\t0\n\t\t\tport_lid:\t\t0\n\t\t\tlink_layer:\t\tEthernet\n" +
		"\t\t\tGID[  0]:\t\tfe80::ac0:ebff:feda:1cfb, RoCE v1\n\t\t\tGID[  1]:\t\tfe80::ac0:ebff:feda:1cfb, RoCE v2\n\t\t\tGID[  2]:\t\t::ffff:10.0.0.6, RoCE v1\n\t\t\tGID[  3]:\t\t::ffff:10.0.0.6, RoCE v2\n"
	topologyXML = "<system version=\"1\">\n  <cpu numaid=\"0\" arch=\"x86_64\">\n    <gpu dev=\"0\" sm=\"70\" rank=\"0\" gdr=\"0\">\n    </gpu>\n        <nic>\n          <net name=\"mlx5_0\" dev=\"0\" speed=\"100000\" port=\"1\" guid=\"0x62fcd400039f59b8\" maxconn=\"262144\" gdr=\"0\"/>\n          <net name=\"eth0\" dev=\"0\" speed=\"10000\" port=\"0\" guid=\"0x0\" maxconn=\"65536\" gdr=\"0\"/>\n        </nic>\n  </cpu>\n</system>\n"
	rasReport   = "NCCL version 2.26.2 compiled with CUDA 12.6\n\nJob summary\n===========\n\nCommunicators... (0.00s)\n=============\n\nWarnings\n========\n\n#0-0 (fa93daea854b060b) MISMATCH\n  Communicator ranks have different AllGather operation counts\n  30 ranks have launched up to operation 640\n"
)

// TestToolsOfPorts: the output of tools that show ports, of NCCL's topology and of its RAS is named, and judged with the settings beside it.
func TestToolsOfPorts(t *testing.T) {
	for _, c := range []struct {
		text, summary string
		severity      env.Severity
		kind          Kind
	}{
		{ibstatDown, "No RDMA port is active", env.Warning, Ports},
		{ibstatInit, "No subnet manager", env.Error, Ports},
		{ibstatus, "InfiniBand and RoCE are mixed", env.Warning, Ports},
		{"export NCCL_IB_HCA==mlx5_0\n" + ibstatus, "InfiniBand and RoCE are mixed", -1, Commands},
		{"export NCCL_IB_HCA==rocep216s0f0\n" + ibstatDown, "Device that is down", env.Error, Commands},
		{"export NCCL_IB_HCA==mlx5_0\n" + ibstatDown, "No RDMA port is active", -1, Commands},
		{devinfo, "Small RDMA MTU", env.Note, GIDs},
		{devinfo, "GIDs that NCCL chooses", env.Note, GIDs},
		{"export NCCL_IB_GID_INDEX=1\n" + devinfo, "Link-local GID", env.Error, Commands},
		{topologyXML, "No GPUDirect RDMA", env.Warning, Hardware},
		{strings.Replace(topologyXML, `maxconn="262144" gdr="0"`, `maxconn="262144" gdr="1"`, 1), "No GPUDirect RDMA", -1, Hardware},
		{rasReport, "Ranks are at different operations", env.Warning, RAS},
	} {
		r := Explain("x", c.text, nil, fabric.Invocation{})
		if got := severity(r, c.summary); got != c.severity || r.Kind != c.kind || r.Nothing != "" || r.Read.Unknown.Count > 0 {
			t.Errorf("%q is %d, want %d, in %s:\n%s", c.summary, got, c.severity, r.Kind, asText(r))
		}
	}
}
