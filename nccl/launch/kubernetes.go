package launch

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl"
)

// yaml quotes a string for YAML. A JSON string is also a YAML string.
func yaml(v string) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return string(text)
}

// label makes a Kubernetes name (RFC 1123): lower-case letters, digits and -, at most 63 characters.
func label(parts ...string) string {
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.Join(parts, "-")))
	return strings.Trim(out[:min(len(out), 63)], "-")
}

// pod renders one pod. The user replaces IMAGE and COMMAND.
func pod(s *script, j Job, h Host, own bool) {
	s.line("---")
	s.line("apiVersion: v1")
	s.line("kind: Pod")
	s.line("metadata:")
	s.line("  name: %s", yaml(label(j.Fabric, h.Name)))
	if own {
		var nets []string
		for _, n := range h.NICs {
			nets = append(nets, label(j.Fabric, h.Name, n.Name)+"@"+n.Netdev)
		}
		s.line("  annotations:")
		s.line("    k8s.v1.cni.cncf.io/networks: %s", yaml(strings.Join(nets, ", ")))
	}
	s.line("spec:")
	s.line("  nodeName: %s", yaml(h.Hostname))
	if !own {
		s.line("  hostNetwork: true")
		s.line("  dnsPolicy: ClusterFirstWithHostNet")
	}
	s.line("  restartPolicy: Never")
	s.line("  containers:")
	s.line("  - name: job")
	s.line("    image: IMAGE")
	s.line("    securityContext:")
	s.line("      capabilities:")
	s.line("        add: [IPC_LOCK] # RDMA pins memory; the container runtime must also allow unlimited memlock")
	s.line("    env:")
	for _, v := range h.Env {
		if own && v.Name == "NCCL_IB_GID_INDEX" {
			s.line("    # NCCL_IB_GID_INDEX is omitted: a pod has other GID indexes than the host.")
			continue
		}
		if own && v.Name == "NCCL_SOCKET_IFNAME" && !slices.ContainsFunc(h.NICs, func(n NIC) bool { return n.Netdev == h.Socket }) {
			v.Value, v.Reason = "=eth0", "the pod's own network: "+h.Socket+" remains on the host"
		}
		s.line("    %s", nccl.Comment(v.Reason))
		s.line("    - name: %s", v.Name)
		s.line("      value: %s", yaml(v.Value))
	}
	resources(s, h, own)
	s.line("    volumeMounts:")
	if h.RDMA && !own {
		s.line("    - {name: infiniband, mountPath: /dev/infiniband}")
	}
	s.line("    - {name: shm, mountPath: /dev/shm}")
	s.line("  volumes:")
	if h.RDMA && !own {
		s.line("  - {name: infiniband, hostPath: {path: /dev/infiniband}}")
	}
	s.line("  - {name: shm, emptyDir: {medium: Memory}} # NCCL's shared memory; the default of 64 MiB is too small")
}

func resources(s *script, h Host, own bool) {
	if h.GPUs == 0 && (!own || !h.RDMA) {
		return
	}
	s.line("    resources:")
	s.line("      limits:")
	if h.GPUs > 0 {
		s.line("        nvidia.com/gpu: %d", h.GPUs)
	}
	if own && h.RDMA {
		s.line("        rdma/hca: 1 # the RDMA shared device plugin's name for all devices")
	}
}

func kubernetes(j Job) []byte {
	var s script
	s.line("# One pod per host, in the host's network. The container runs as root, or with access to /dev/infiniband.")
	for _, h := range j.Hosts {
		pod(&s, j, h, false)
	}
	return s.Bytes()
}

// kubernetesMultus moves each NIC into its pod with its declared address, so that GIDs and routes are those
// that were verified.
func kubernetesMultus(j Job) []byte {
	var s script
	s.line("# One pod per host, with the fabric's NICs moved into it. The nodes' RDMA devices must follow their NICs:")
	s.line("# rdma system set netns exclusive, and the rdma plugin of the chain below.")
	for _, h := range j.Hosts {
		for _, n := range h.NICs {
			s.line("---")
			s.line("apiVersion: k8s.cni.cncf.io/v1")
			s.line("kind: NetworkAttachmentDefinition")
			s.line("metadata:")
			s.line("  name: %s", yaml(label(j.Fabric, h.Name, n.Name)))
			s.line("spec:")
			s.line("  config: %s", yaml(attachment(j, h, n)))
		}
		pod(&s, j, h, true)
	}
	return s.Bytes()
}

// attachment returns the configuration of the CNI plugins host-device, static, tuning and rdma.
func attachment(j Job, h Host, n NIC) string {
	type addr struct {
		Address netip.Prefix `json:"address"`
	}
	type ipam struct {
		Type      string `json:"type"`
		Addresses []addr `json:"addresses"`
	}
	type plugin struct {
		Type   string `json:"type"`
		Device string `json:"device,omitempty"`
		IPAM   *ipam  `json:"ipam,omitempty"`
		MTU    int    `json:"mtu,omitempty"` // bytes
	}
	static := &ipam{Type: "static", Addresses: []addr{}}
	for _, a := range n.Addresses {
		static.Addresses = append(static.Addresses, addr{a})
	}
	plugins := []plugin{{Type: "host-device", Device: n.Netdev, IPAM: static}}
	if n.MTU > 0 {
		plugins = append(plugins, plugin{Type: "tuning", MTU: n.MTU})
	}
	if h.RDMA {
		plugins = append(plugins, plugin{Type: "rdma"})
	}
	text, err := json.Marshal(struct {
		Version string   `json:"cniVersion"`
		Name    string   `json:"name"`
		Plugins []plugin `json:"plugins"`
	}{"0.4.0", label(j.Fabric, h.Name, n.Name), plugins})
	if err != nil {
		panic(fmt.Sprintf("a plugin's configuration: %v", err)) // these types can always be encoded
	}
	return string(text)
}
