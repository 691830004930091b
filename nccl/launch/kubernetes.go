package launch

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl"
)

// nodeLabel is the label by which a pod is placed: the kubelet sets it to the host's name (uname -n) in lower case, while the
// name of the node may be a cloud's. A pod with nodeName would bypass the scheduler and fail where GPUs are still taken.
const nodeLabel = "kubernetes.io/hostname"

// rdmaResource is the resource of the RDMA shared device plugin, as its example configuration names it. A container may open
// /dev/infiniband only with such a resource, or if it is privileged: a volume of type hostPath shows the device files, but the
// container's device cgroup denies them.
const rdmaResource = "rdma/" + rdmaResourceName

// rdmaResourceName is resourceName in the plugin's configuration, whose resourcePrefix is rdma by default.
const rdmaResourceName = "hca_shared_devices_a"

// eth0 is the interface of a pod in the cluster's own network: container runtimes give it this name.
const eth0 = "eth0"

// secret tells the reader of a manifest where sensitive settings come from: a container does not see the host's nccl.conf.
const secret = "Add them to env from a Secret (valueFrom)."

// yaml quotes a string for YAML. A JSON string is also a YAML string.
func yaml(v string) string { return encoded(v) }

// encoded returns a value as JSON, in which < and > stay as they are.
func encoded(v any) string {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // strings and our own types can always be encoded
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// label makes a Kubernetes name (RFC 1123): lower-case letters, digits and -, at most 63 characters. Different parts may have
// the same name: checkPods refuses that.
func label(parts ...string) string {
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.Join(parts, "-")))
	return strings.Trim(out[:min(len(out), 63)], "-")
}

// labelValue matches values of labels that can be a host's name.
var labelValue = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`) })

// node returns the value of nodeLabel.
func (h Host) node() string { return strings.ToLower(h.Hostname) }

// checkPods refuses hosts and NICs that Kubernetes could not tell apart.
func checkPods(j Job) error {
	taken := func(by map[string]string, name, who string) error {
		if other, found := by[name]; found {
			return fmt.Errorf("%s and %s would both be called %s in Kubernetes: rename one of them", other, who, name)
		}
		by[name] = who
		return nil
	}
	pods, networks, nodes := map[string]string{}, map[string]string{}, map[string]string{}
	for _, h := range j.Hosts {
		if !labelValue().MatchString(h.node()) {
			return fmt.Errorf("host %s: its host name %q cannot be a value of the label %s, by which Kubernetes would find its node", h.Name, h.Hostname, nodeLabel)
		}
		if other, found := nodes[h.node()]; found {
			return fmt.Errorf("hosts %s and %s have the same host name %q: Kubernetes cannot tell their nodes apart", other, h.Name, h.Hostname)
		}
		nodes[h.node()] = h.Name
		if err := taken(pods, label(j.Fabric, h.Name), "host "+h.Name); err != nil {
			return err
		}
		for _, n := range h.NICs {
			if err := taken(networks, label(j.Fabric, h.Name, n.Name), fmt.Sprintf("NIC %s of host %s", n.Name, h.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkMultus refuses NICs that cannot move into a pod, and routes that no CNI plugin makes there.
func checkMultus(j Job) error {
	for _, h := range j.Hosts {
		for _, n := range h.NICs {
			why, cure := "", "use -format kubernetes"
			switch bad := slices.IndexFunc(n.Routes, func(r fabric.Route) bool { return !n.routable(r) }); {
			case n.Netdev == "":
				why = "it was not found on the host"
			case n.Soft:
				why = "its Soft-RoCE device ends when the NIC leaves the host's network"
			case n.Policy != "":
				why = "its policy_route " + n.Policy + " would be missing in a pod"
			case n.Kind == "bond" || n.Kind == "bridge" || n.Kind == "team": // NETIF_F_NETNS_LOCAL, netns_immutable since Linux 6.14
				why, cure = fmt.Sprintf("%s is a %s, which the kernel does not move", n.Netdev, n.Kind), cure+", or declare a NIC below it"
			case h.RDMA && n.Kind != "":
				why, cure = fmt.Sprintf("%s is a %s, and the RDMA shared device plugin offers only interfaces of PCI devices", n.Netdev, n.Kind), cure+", or declare the NIC below it"
			case bad >= 0:
				why = fmt.Sprintf("its route to %s would be missing in a pod, because it is a default route or has on_link, metric or another NIC's src", n.Routes[bad].To)
			}
			if why != "" {
				return fmt.Errorf("host %s: NIC %s cannot move into a pod: %s; %s", h.Name, n.Name, why, cure)
			}
		}
	}
	return checkPods(j)
}

// routable reports whether the CNI plugin static can make the route in a pod: it sets destination and gateway, and the pod has
// a default route of the cluster's network.
func (n NIC) routable(r fabric.Route) bool {
	ours := !r.Src.IsValid() || slices.ContainsFunc(n.Addresses, func(a netip.Prefix) bool { return a.Addr() == r.Src })
	return ours && r.To.Bits() > 0 && !r.OnLink && r.Metric == 0
}

// container is a container whose pod the caller renders; the user replaces IMAGE and COMMAND.
type container struct {
	name     string
	security string // of securityContext; "": the default
	reason   string // for security
	command  []string
	env      nccl.Env
	limits   []string
	shm      bool // memory-backed /dev/shm
}

// containers renders the containers of a pod, and its volumes.
func (s *script) containers(in string, c container) {
	line := func(format string, a ...any) { s.line(in+format, a...) }
	line("containers:")
	line("- name: %s", c.name)
	line("  image: IMAGE")
	line("  command:")
	for _, word := range c.command {
		if !strings.Contains(word, "\n") {
			line("  - %s", yaml(literal(word)))
			continue
		}
		line("  - |- # Kubernetes turns $$ into $")
		for text := range strings.Lines(literal(word)) {
			line("    %s", strings.TrimSuffix(text, "\n"))
		}
	}
	if c.security != "" {
		line("  securityContext: {%s} # %s", c.security, c.reason)
	}
	if len(c.env) > 0 {
		line("  env:")
	}
	for _, v := range c.env {
		line("  %s", nccl.Comment(v.Reason))
		line("  - name: %s", v.Name)
		line("    value: %s", yaml(literal(v.Value)))
	}
	if len(c.limits) > 0 {
		line("  resources:")
		line("    limits:")
	}
	for _, l := range c.limits {
		line("      %s", l)
	}
	if c.shm {
		line("  volumeMounts:")
		line("  - {name: shm, mountPath: /dev/shm}")
		line("volumes:")
		line("- {name: shm, emptyDir: {medium: Memory}} # NCCL's shared memory; the default of 64 MiB is too small")
	}
}

// literal keeps Kubernetes from replacing $(NAME) in the values of variables and in commands: there, $$ is a $.
func literal(v string) string { return strings.ReplaceAll(v, "$", "$$") }

// gpus returns the limit of a pod that uses all GPUs of the host.
func (h Host) gpus() []string {
	if h.GPUs == 0 {
		return nil
	}
	return []string{fmt.Sprintf("nvidia.com/gpu: %d", h.GPUs)}
}

// privileged makes a container privileged if the host has RDMA. Pods in the host's network are allowed only where privileged
// ones are (the namespace's pod security level "privileged"), and this needs no device plugin.
func (c container) privileged(rdma bool) container {
	if rdma {
		c.security, c.reason = "privileged: true", "opens /dev/infiniband and locks memory; with a device plugin, its resource and IPC_LOCK are enough"
	}
	return c
}

// kubernetes renders pods that use the hosts' network, so that every setting of the hosts holds in them.
func kubernetes(j Job) []byte {
	var s script
	s.line("# One pod per host, in the host's network. Replace IMAGE and COMMAND. The namespace's pod security level must be privileged.")
	for _, h := range j.Hosts {
		s.line("---")
		s.line("apiVersion: v1")
		s.line("kind: Pod")
		s.line("metadata:")
		s.line("  name: %s", yaml(label(j.Fabric, h.Name)))
		s.line("spec:")
		s.line("  nodeSelector: {%s: %s}", nodeLabel, yaml(h.node()))
		s.line("  hostNetwork: true")
		s.line("  dnsPolicy: ClusterFirstWithHostNet")
		s.line("  restartPolicy: Never")
		s.containers("  ", container{name: "job", command: []string{"COMMAND"}, env: slices.Concat(h.Env, h.torch()), limits: h.gpus(), shm: true}.privileged(h.RDMA))
	}
	return s.Bytes()
}

// kubernetesMultus moves each NIC into its pod with its declared addresses and routes. The nodes' RDMA devices stay visible to all
// network namespaces, as by default (rdma system show: netns shared): the RDMA shared device plugin does not start in the mode
// exclusive, and the CNI plugin rdma, which works in that mode alone, needs a device ID from another device plugin.
func kubernetesMultus(j Job) []byte {
	var s script
	s.line("# One pod per host, with the fabric's NICs moved into it: they leave the host's network until the pod ends. Replace IMAGE and COMMAND.")
	s.line("# The cluster needs Multus, and the CNI plugins host-device, static, sbr and tuning. Apply everything in one namespace.")
	if nics := j.rdmaNetdevs(); len(nics) > 0 {
		s.line("# The namespace's pod security level must be privileged, because of IPC_LOCK. rdma system show must say: netns shared, the default.")
		s.line("# The RDMA shared device plugin must offer these NICs in one resource, also while they are in a pod. Its config.json:")
		s.line("# {")
		s.line(`#   "periodicUpdateInterval": 0,`)
		s.line(`#   "configList": [{"resourceName": %s, "rdmaHcaMax": 1000, "selectors": {"ifNames": %s}}]`, encoded(rdmaResourceName), encoded(nics))
		s.line("# }")
	}
	for _, h := range j.Hosts {
		var networks []network
		for _, n := range h.NICs {
			name := label(j.Fabric, h.Name, n.Name)
			networks = append(networks, network{name, n.inPod()})
			s.line("---")
			s.line("apiVersion: k8s.cni.cncf.io/v1")
			s.line("kind: NetworkAttachmentDefinition")
			s.line("metadata:")
			s.line("  name: %s", yaml(name))
			s.line("spec:")
			s.line("  config: %s", yaml(encoded(n.attachment(name))))
		}
		s.line("---")
		s.line("apiVersion: v1")
		s.line("kind: Pod")
		s.line("metadata:")
		s.line("  name: %s", yaml(label(j.Fabric, h.Name)))
		if len(networks) > 0 {
			s.line("  annotations:")
			s.line("    k8s.v1.cni.cncf.io/networks: %s", yaml(encoded(networks)))
		}
		s.line("spec:")
		s.line("  nodeSelector: {%s: %s}", nodeLabel, yaml(h.node()))
		s.line("  restartPolicy: Never")
		c := container{name: "job", command: []string{"COMMAND"}, env: h.podEnv(), limits: h.gpus(), shm: true}
		if h.RDMA {
			c.security, c.reason = "capabilities: {add: [IPC_LOCK]}", "RDMA pins memory; the container must run as root for it"
			c.limits = append(c.limits, rdmaResource+": 1")
		}
		s.containers("  ", c)
	}
	return s.Bytes()
}

// rdmaNetdevs returns the interfaces of the hosts with RDMA, without duplicates.
func (j Job) rdmaNetdevs() (out []string) {
	for _, h := range j.Hosts {
		for _, n := range h.NICs {
			if h.RDMA && !slices.Contains(out, n.Netdev) {
				out = append(out, n.Netdev)
			}
		}
	}
	return out
}

// inPod returns the interface's name in a pod. A pod already has an eth0.
func (n NIC) inPod() string {
	if n.Netdev == eth0 {
		return "fabric-eth0"
	}
	return n.Netdev
}

// podEnv returns the settings for a pod with NICs of its own. A pod has other GID indexes than the host, and of the host's
// interfaces only these NICs.
func (h Host) podEnv() (out nccl.Env) {
	socket, reason := eth0, "the pod's own network: routes of a policy_route are found by the NIC's address alone, which NCCL's bootstrap does not bind"
	if !slices.ContainsFunc(h.NICs, func(n NIC) bool { return n.Netdev == h.Socket }) {
		reason = "the pod's own network: the host's other interfaces are not in the pod"
	}
	for _, n := range h.NICs {
		if n.Netdev == h.Socket && !n.Sourced {
			socket, reason = n.inPod(), ""
		}
	}
	for _, v := range h.Env {
		switch v.Name {
		case "NCCL_IB_GID_INDEX":
			continue
		case "NCCL_SOCKET_IFNAME":
			v.Value = "=" + socket
			if reason != "" {
				v.Reason = reason
			}
		}
		out = append(out, v)
	}
	h.Socket = socket
	return slices.Concat(out, h.torch())
}

// network is one element of Multus's annotation of a pod.
type network struct {
	Name      string `json:"name"`
	Interface string `json:"interface"`
}

// attachment is a chain of CNI plugins: host-device with static for addresses and routes, sbr, which moves the routes to a table of
// the NIC's address (source-based routing), and tuning.
type attachment struct {
	Version string   `json:"cniVersion"`
	Name    string   `json:"name"`
	Plugins []plugin `json:"plugins"`
}

type plugin struct {
	Type   string            `json:"type"`
	Device string            `json:"device,omitempty"`
	IPAM   *ipam             `json:"ipam,omitempty"` // nil: no address
	MTU    int               `json:"mtu,omitempty"`  // bytes
	Sysctl map[string]string `json:"sysctl,omitempty"`
}

type ipam struct {
	Type      string    `json:"type"`
	Addresses []address `json:"addresses"`
	Routes    []route   `json:"routes,omitempty"`
}

type address struct {
	Address netip.Prefix `json:"address"`
}

type route struct {
	To  netip.Prefix `json:"dst"`
	Via *netip.Addr  `json:"gw,omitempty"`
}

func (n NIC) attachment(name string) attachment {
	device := plugin{Type: "host-device", Device: n.Netdev}
	if len(n.Addresses) > 0 { // host-device fails with an IPAM plugin that has no address
		device.IPAM = &ipam{Type: "static"}
		for _, a := range n.Addresses {
			device.IPAM.Addresses = append(device.IPAM.Addresses, address{a})
		}
		for _, r := range n.Routes {
			if !r.Via.IsValid() && slices.ContainsFunc(n.Addresses, func(a netip.Prefix) bool { return a.Masked() == r.To.Masked() }) {
				continue // comes with the address
			}
			to := route{To: r.To}
			if r.Via.IsValid() {
				to.Via = &r.Via
			}
			device.IPAM.Routes = append(device.IPAM.Routes, to)
		}
	}
	out := attachment{"0.4.0", name, []plugin{device}}
	if n.Sourced {
		out.Plugins = append(out.Plugins, plugin{Type: "sbr"})
	}
	if n.MTU > 0 || len(n.Sysctl) > 0 {
		tuning := plugin{Type: "tuning", MTU: n.MTU, Sysctl: map[string]string{}}
		for key, v := range n.Sysctl {
			family, rest, _ := strings.Cut(key, ".") // ipv4.conf.arp_ignore
			what, rest, _ := strings.Cut(rest, ".")
			// tuning puts the interface in place of IFNAME.
			tuning.Sysctl["net."+family+"."+what+".IFNAME."+rest] = v
		}
		out.Plugins = append(out.Plugins, tuning)
	}
	return out
}
