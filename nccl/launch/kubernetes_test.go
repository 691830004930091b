package launch

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl"
)

// manifest is what the tests read of any of our objects.
type manifest struct {
	Kind     string
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec struct {
		Config     string
		Containers []manifestContainer
		PyTorch    map[string]replica `json:"pytorchReplicaSpecs"`
		MPI        map[string]replica `json:"mpiReplicaSpecs"`
		RunPolicy  struct{ BackoffLimit *int }
	}
}

type replica struct {
	Template struct {
		Spec struct{ Containers []manifestContainer }
	}
}

type manifestContainer struct {
	Command []string
	Env     []struct{ Name, Value string }
}

// manifests parses what formats render, as another program does.
func manifests(t *testing.T, j Job, formats ...string) (out [][]manifest) {
	t.Helper()
	cmd := exec.Command("python3", "-c", "import sys, yaml, json; print(json.dumps([list(yaml.safe_load_all(t)) for t in sys.stdin.read().split('\\0')]))")
	var texts [][]byte
	for _, f := range formats {
		texts = append(texts, rendered(t, f, j))
	}
	cmd.Stdin = bytes.NewReader(bytes.Join(texts, []byte{0}))
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// expand replaces $(NAME) and $$ as Kubernetes does (third_party/forked/golang/expansion).
func expand(s string, env map[string]string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		end := strings.IndexByte(s[i:], ')')
		switch {
		case s[i] == '$' && i+1 < len(s) && s[i+1] == '$':
			out.WriteByte('$')
			i++
		case s[i] == '$' && i+1 < len(s) && s[i+1] == '(' && end > 0:
			if v, found := env[s[i+2:i+end]]; found {
				out.WriteString(v)
			} else {
				out.WriteString(s[i : i+end+1])
			}
			i += end
		default:
			out.WriteByte(s[i])
		}
	}
	return out.String()
}

// onHost returns the environment of COMMAND on a host: the container's, mpirun's -x, and what the container's script exports there.
func (c manifestContainer) onHost(t *testing.T, hostname string) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, v := range c.Env {
		env[v.Name] = expand(v.Value, env)
	}
	var command []string
	for _, word := range c.Command {
		command = append(command, expand(word, env))
	}
	if len(command) == 0 || command[len(command)-1] != "COMMAND" {
		t.Fatalf("the command is %q", command)
	}
	for i, word := range command {
		if name, v, found := strings.Cut(word, "="); found && command[i-1] == "-x" {
			env[name] = v
		}
	}
	at := -1
	for i, word := range command[1:] {
		if command[i] == "sh" && word == "-c" { // the last one: mpijob starts mpirun in the same way
			at = i
		}
	}
	if at >= 0 {
		var script strings.Builder
		for _, word := range append(command[at:len(command)-1], "tell") {
			script.WriteString(nccl.Quote(word) + " ")
		}
		_, exported := run(t, []byte(script.String()+"\n"), hostname)
		maps.Copy(env, exported)
	}
	return env
}

func TestYAMLKeepsEveryValue(t *testing.T) {
	if err := exec.Command("python3", "-c", "import yaml").Run(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("python3-yaml is missing, and CI installs it")
		}
		t.Skip("python3-yaml is not installed")
	}
	j := hostile()
	read := manifests(t, j, "kubernetes", "kubernetes-multus", "pytorchjob", "mpijob")
	for i, format := range []string{"kubernetes", "kubernetes-multus"} {
		pods := 0
		for _, o := range read[i] {
			if o.Kind == "NetworkAttachmentDefinition" {
				if !json.Valid([]byte(o.Spec.Config)) || !strings.Contains(o.Spec.Config, "10.1.0.1/24") {
					t.Errorf("%s", o.Spec.Config)
				}
				continue
			}
			want := slices.Clone(j.Hosts[pods].Env)
			if format == "kubernetes-multus" {
				// Beside the pod's own eth0, the first host's NIC eth0 has another name. The second host's interface is not in its pod.
				want[3].Value = []string{"=fabric-eth0", "=eth0"}[pods]
			}
			same(t, format, want, o.Spec.Containers[0].onHost(t, j.Hosts[pods].Hostname))
			pods++
		}
		if pods != 2 {
			t.Errorf("%s: %d pods", format, pods)
		}
	}
	for _, h := range j.Hosts { // any pod may be on any host
		torch, mpi := read[2][0].Spec.PyTorch, read[3][0].Spec.MPI
		for role, r := range torch {
			same(t, role, slices.Concat(h.Env, h.torch()), r.Template.Spec.Containers[0].onHost(t, h.Hostname))
		}
		if len(torch) != 2 {
			t.Errorf("%d roles", len(torch))
		}
		same(t, "mpijob", h.Env, mpi["Launcher"].Template.Spec.Containers[0].onHost(t, h.Hostname))
		if limit := read[3][0].Spec.RunPolicy.BackoffLimit; limit == nil || *limit != 0 {
			t.Errorf("a failed mpijob starts again, %v times", limit)
		}
	}
}

// Hosts that differ, and whose names and values are awkward: the module manifests decodes these files as well.
func TestManifestsOfDifferentHostsRendered(t *testing.T) {
	j := hostile()
	j.Fabric = "8_GPUs.Lab"
	j.Hosts[0].NICs = append(j.Hosts[0].NICs, NIC{Name: "R.2", Netdev: "ens1f1", Sysctl: map[string]string{"ipv4.conf.arp_ignore": "1"},
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.2.0.1/24"), netip.MustParsePrefix("fd00::1/64")},
		Routes:    []fabric.Route{{To: netip.MustParsePrefix("10.9.0.0/16"), Via: netip.MustParseAddr("10.2.0.9")}, {To: netip.MustParsePrefix("fd01::/64")}}})
	for _, format := range []string{"kubernetes", "kubernetes-multus", "pytorchjob", "mpijob"} {
		expect(t, "hostile", format, j)
	}
}

// Two things of one name would be one in Kubernetes, and a pod that needs what its host lacks never starts.
func TestKubernetesRefusesImpossiblePods(t *testing.T) {
	host := func(name, hostname string, nics ...NIC) Host {
		return Host{Name: name, Hostname: hostname, Address: name, RDMA: true, GPUs: 1, NICs: nics}
	}
	route := fabric.Route{To: netip.MustParsePrefix("10.9.0.0/16"), Via: netip.MustParseAddr("10.1.0.9")}
	onLink, other, metric, all := route, route, route, route
	metric.Metric, all.To = 7, netip.MustParsePrefix("0.0.0.0/0")
	onLink.OnLink, other.Src = true, netip.MustParseAddr("10.2.0.1")
	own := []netip.Prefix{netip.MustParsePrefix("10.1.0.1/24")}
	long := strings.Repeat("x", 62)
	for want, c := range map[string]struct {
		format string
		hosts  []Host
	}{
		"host a.b and host a_b would both be called f-a-b in Kubernetes":                             {"kubernetes", []Host{host("a.b", "one"), host("a_b", "two")}},
		"NIC x1 of host " + long + " and NIC x2 of host " + long + " would both be called":           {"kubernetes-multus", []Host{host(long, "a", NIC{Name: "x1", Netdev: "x1"}, NIC{Name: "x2", Netdev: "x2"})}},
		"NIC c-d of host a and NIC d of host a-c would both be called f-a-c-d":                       {"kubernetes-multus", []Host{host("a", "a", NIC{Name: "c-d", Netdev: "x"}), host("a-c", "b", NIC{Name: "d", Netdev: "x"})}},
		`hosts a and b have the same host name "Node"`:                                               {"pytorchjob", []Host{host("a", "node"), host("b", "Node")}},
		`host a: its host name "-x" cannot be a value of the label kubernetes.io/hostname`:           {"mpijob", []Host{host("a", "-x")}},
		"hosts a and b have 1 and 0 GPUs, but all pods of the job have one template":                 {"mpijob", []Host{host("a", "a"), {Name: "b", Hostname: "b"}}},
		"host a: NIC r cannot move into a pod: it was not found on the host":                         {"kubernetes-multus", []Host{host("a", "a", NIC{Name: "r"})}},
		"host a: NIC r cannot move into a pod: its Soft-RoCE device ends":                            {"kubernetes-multus", []Host{host("a", "a", NIC{Name: "r", Netdev: "x", Soft: true})}},
		"host a: NIC r cannot move into a pod: x.7 is a vlan, and the RDMA shared device plugin":     {"kubernetes-multus", []Host{host("a", "a", NIC{Name: "r", Netdev: "x.7", Kind: "vlan"})}},
		"offers only interfaces of PCI devices; use -format kubernetes, or declare the NIC below it": {"kubernetes-multus", []Host{host("a", "a", NIC{Name: "r", Netdev: "x", Kind: "macvlan"})}},
		"host a: NIC r cannot move into a pod: x is a bond, which the kernel does not move":          {"kubernetes-multus", []Host{{Name: "a", Hostname: "a", NICs: []NIC{{Name: "r", Netdev: "x", Kind: "bond"}}}}},
		"host a: NIC r cannot move into a pod: its policy_route p would be missing":                  {"kubernetes-multus", []Host{host("a", "a", NIC{Name: "r", Netdev: "x", Policy: "p"})}},
		"host a: NIC r cannot move into a pod: its route to 10.9.0.0/16 would be missing":            {"kubernetes-multus", []Host{host("a", "a", NIC{Name: "r", Netdev: "x", Addresses: own, Routes: []fabric.Route{route, onLink}})}},
		"host b: NIC r cannot move into a pod: its route to 10.9.0.0/16 would be missing in a pod,":  {"kubernetes-multus", []Host{host("b", "a", NIC{Name: "r", Netdev: "x", Addresses: own, Routes: []fabric.Route{other}})}},
		"host c: NIC r cannot move into a pod: its route to 10.9.0.0/16 would be missing in a pod,":  {"kubernetes-multus", []Host{host("c", "a", NIC{Name: "r", Netdev: "x", Addresses: own, Routes: []fabric.Route{metric}})}},
		"host d: NIC r cannot move into a pod: its route to 0.0.0.0/0 would be missing in a pod,":    {"kubernetes-multus", []Host{host("d", "a", NIC{Name: "r", Netdev: "x", Addresses: own, Routes: []fabric.Route{all}})}},
	} {
		if _, err := Render(c.format, Job{Fabric: "f", Hosts: c.hosts}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	text := rendered(t, "kubernetes-multus", Job{Fabric: "f", Hosts: []Host{host("a", "a", NIC{Name: "r", Netdev: "x", Addresses: own, Routes: []fabric.Route{route}})}})
	if !strings.Contains(string(text), `\"routes\":[{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.1.0.9\"}]`) {
		t.Errorf("%s", text)
	}
}

// The container's device cgroup denies /dev/infiniband to a container that is neither privileged nor has a device plugin's resource.
func TestContainersMayOpenTheirRDMADevices(t *testing.T) {
	for format, want := range map[string]string{
		"kubernetes": "securityContext: {privileged: true}", "pytorchjob": "securityContext: {privileged: true}", "mpijob": "securityContext: {privileged: true}",
		"kubernetes-multus": "rdma/hca_shared_devices_a: 1",
	} {
		j := hostile()
		if text := string(rendered(t, format, j)); !strings.Contains(text, want) || strings.Contains(text, "hostPath") {
			t.Errorf("%s: no %s, or a volume\n%s", format, want, text)
		}
		for i := range j.Hosts {
			j.Hosts[i].RDMA = false
		}
		if text := string(rendered(t, format, j)); strings.Contains(text, want) || strings.Contains(text, "IPC_LOCK") {
			t.Errorf("%s gives a job over sockets RDMA's rights\n%s", format, text)
		}
	}
}

// TestMultusPrintsTheDevicePluginsConfiguration: its parser needs resourceName and rdmaHcaMax, and the interval is beside the list
// (k8s-rdma-shared-dev-plugin, pkg/types/types.go). The level baseline does not allow IPC_LOCK.
func TestMultusPrintsTheDevicePluginsConfiguration(t *testing.T) {
	text := string(rendered(t, "kubernetes-multus", hostile()))
	_, rest, _ := strings.Cut(text, "\n# {\n")
	object, _, found := strings.Cut(rest, "\n# }\n")
	var config struct {
		PeriodicUpdateInterval *int
		ConfigList             []struct {
			ResourceName string
			RDMAHCAMax   int
			Selectors    struct{ IfNames []string }
		}
	}
	d := json.NewDecoder(strings.NewReader("{" + strings.ReplaceAll(object, "\n#", "\n")[1:] + "}"))
	d.DisallowUnknownFields()
	if err := d.Decode(&config); err != nil || !found {
		t.Fatalf("%v\n%s", err, text)
	}
	if c := config.ConfigList; config.PeriodicUpdateInterval == nil || *config.PeriodicUpdateInterval != 0 || len(c) != 1 || "rdma/"+c[0].ResourceName != rdmaResource ||
		c[0].RDMAHCAMax < 1 || !slices.Equal(c[0].Selectors.IfNames, []string{"eth0"}) || !strings.Contains(text, "pod security level must be privileged") {
		t.Errorf("%+v\n%s", config, text)
	}
}

// TestNICsOfAHostHaveTheKindOfTheirInterface: checkMultus decides by it.
func TestNICsOfAHostHaveTheKindOfTheirInterface(t *testing.T) {
	h := &fabric.Host{Name: "a", NICs: []*fabric.NIC{{Name: "r", Host: "a", Netdev: "ens1.7"}}}
	f := &fabric.Fabric{Name: "f", Hosts: []*fabric.Host{h}}
	f.NCCL.HCA = []fabric.NICRef{h.NICs[0].Ref()}
	got := NewHost(f, h, &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "ens1.7", Kind: "vlan", Up: true}}}, AddressOwners(f, nil))
	if len(got.NICs) != 1 || got.NICs[0].Kind != "vlan" {
		t.Errorf("%+v", got.NICs)
	}
}

// TestMPIJobsRunAsMpirunDoes: with the options of the format mpirun, and -x LD_LIBRARY_PATH only where the image sets it.
func TestMPIJobsRunAsMpirunDoes(t *testing.T) {
	j := hostile()
	j.Hosts[1].Management = netip.MustParsePrefix("10.7.0.0/24") // the hosts have no management network in common
	j.Hosts[0].Socket4, j.Hosts[1].Socket4 = netip.MustParsePrefix("10.1.0.0/24"), netip.MustParsePrefix("10.2.0.0/24")
	command := manifests(t, j, "mpijob")[0][0].Spec.MPI["Launcher"].Template.Spec.Containers[0].Command
	for i := range command {
		command[i] = expand(command[i], nil)
	}
	for set, want := range map[string]string{"": "--allow-run-as-root -np 4 ", "export LD_LIBRARY_PATH=/opt/lib\n": "-x LD_LIBRARY_PATH --allow-run-as-root -np 4 "} {
		var script strings.Builder
		for _, word := range command {
			script.WriteString(nccl.Quote(word) + " ")
		}
		args, _ := run(t, []byte(set+script.String()+"\n"), "a")
		line := strings.Join(args, " ")
		if !strings.HasPrefix(line, want) || strings.Contains(line, "oob_tcp") || !strings.Contains(line, " --mca coll ^hcoll,ucc ") || !strings.Contains(line, " --mca btl_tcp_if_include 10.1.0.0/24,10.2.0.0/24 ") ||
			!strings.Contains(line, " --mca btl_tcp_port_min_v4 32768 ") || !strings.Contains(line, " --bind-to none ") {
			t.Errorf("mpirun gets %s", line)
		}
	}
}

// Pods are named after jobs, and their names are DNS labels that begin with a letter.
func TestJobsHaveNamesForTheirPods(t *testing.T) {
	for fabric, want := range map[string]string{"train": "train", "8gpu": "job-8gpu", "A.b_C": "a-b-c", strings.Repeat("x", 63): strings.Repeat("x", 42)} {
		if got := (Job{Fabric: fabric}).jobName(); got != want {
			t.Errorf("%s is %s, want %s", fabric, got, want)
		}
	}
}

// The routes of a NIC's own address are found by that address alone, which NCCL's bootstrap does not bind.
func TestPolicyRoutesOfANICMoveWithIt(t *testing.T) {
	p := netip.MustParsePrefix
	n := NIC{Name: "r", Netdev: "ens1", Sourced: true, Addresses: []netip.Prefix{p("10.1.0.1/24")},
		Routes: []fabric.Route{{To: p("10.1.0.0/24")}, {To: p("10.0.0.0/8"), Via: netip.MustParseAddr("10.1.0.254")}}}
	got := encoded(n.attachment("n"))
	if want := `{"cniVersion":"0.4.0","name":"n","plugins":[{"type":"host-device","device":"ens1","ipam":{"type":"static","addresses":[{"address":"10.1.0.1/24"}],"routes":[{"dst":"10.0.0.0/8","gw":"10.1.0.254"}]}},{"type":"sbr"}]}`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for sourced, want := range map[bool]string{true: "=eth0", false: "=ens1"} {
		n.Sourced = sourced
		env := Host{Socket: "ens1", NICs: []NIC{n}, Env: nccl.Env{{Name: "NCCL_SOCKET_IFNAME", Value: "=ens1"}, {Name: "NCCL_IB_GID_INDEX", Value: "3"}}}.podEnv()
		gloo, _ := env.Get("GLOO_SOCKET_IFNAME")
		if v, _ := env.Get("NCCL_SOCKET_IFNAME"); v != want || "="+gloo != want || len(env) != 3 {
			t.Errorf("with policy routes %t: %v, want %s", sourced, env, want)
		}
	}
}

// The CNI plugin tuning puts the interface in place of IFNAME; an address is needed for an IPAM plugin.
func TestAttachmentsOmitUnusedPlugins(t *testing.T) {
	got := encoded(NIC{Netdev: "ens1", Sysctl: map[string]string{"ipv4.conf.arp_ignore": "1"}}.attachment("n"))
	if want := `{"cniVersion":"0.4.0","name":"n","plugins":[{"type":"host-device","device":"ens1"},{"type":"tuning","sysctl":{"net.ipv4.conf.IFNAME.arp_ignore":"1"}}]}`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
