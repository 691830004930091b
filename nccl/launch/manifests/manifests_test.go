// Package manifests holds the manifests that package launch renders against the types that Kubernetes, Kubeflow and Multus
// publish. It reads the expected files of package launch, so that this module needs nothing of the program.
package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	multus "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	mpi "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// checker collects what is wrong with one file.
type checker struct {
	*testing.T
	networks map[string]bool // NetworkAttachmentDefinitions of the file
	names    map[string]bool // kind and name of all objects
}

func TestManifestsDecodeStrictly(t *testing.T) {
	kinds := map[string]int{}
	for _, format := range []string{"kubernetes", "kubernetes-multus", "pytorchjob", "mpijob", "kubernetes-node"} {
		files, err := filepath.Glob("../testdata/*/" + format + ".txt")
		if err != nil || len(files) < 9 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.HasPrefix(text, []byte("refused: ")) {
				continue
			}
			_, text, _ = bytes.Cut(text, []byte(" --\n")) // the name of the file
			t.Run(strings.TrimPrefix(file, "../testdata/"), func(t *testing.T) {
				c := checker{t, map[string]bool{}, map[string]bool{}}
				for document := range strings.SplitSeq(string(text), "\n---\n") {
					if kind := c.object([]byte(document)); kind != "" {
						kinds[kind]++
					}
				}
			})
		}
	}
	for _, kind := range []string{"v1 Pod", "k8s.cni.cncf.io/v1 NetworkAttachmentDefinition", "kubeflow.org/v1 PyTorchJob", "kubeflow.org/v2beta1 MPIJob", "v1 Node", "apps/v1 DaemonSet"} {
		if kinds[kind] < 4 {
			t.Errorf("only %d objects are %s", kinds[kind], kind)
		}
	}
}

// strict decodes without unknown or repeated fields.
func (c checker) strict(text []byte, into any) {
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		c.Fatalf("%v\n%s", err, text)
	}
}

// object checks one document and returns its kind; "" if it has comments alone.
func (c checker) object(text []byte) string {
	var about meta.TypeMeta
	if err := yaml.Unmarshal(text, &about); err != nil {
		c.Fatalf("%v\n%s", err, text)
	}
	kind := strings.TrimSpace(about.APIVersion + " " + about.Kind)
	switch kind {
	case "":
	case "v1 Pod":
		var o core.Pod
		c.strict(text, &o)
		c.name(kind, o.Name, validation.IsDNS1123Label)
		c.pod(o.Annotations, o.Spec)
		if o.Spec.RestartPolicy != core.RestartPolicyNever || len(o.Spec.NodeSelector) != 1 || o.Spec.NodeName != "" {
			c.Errorf("pod %s: %v", o.Name, o.Spec)
		}
	case "v1 Node":
		var o core.Node
		c.strict(text, &o)
		c.name(kind, o.Name, validation.IsDNS1123Subdomain)
		for name, value := range o.Labels {
			if wrong := append(validation.IsQualifiedName(name), validation.IsValidLabelValue(value)...); len(wrong) > 0 {
				c.Errorf("label %s: %s: %s", name, value, wrong)
			}
		}
		if len(o.Labels) == 0 || len(o.Annotations) > 0 || o.Spec.PodCIDR != "" || len(o.Spec.Taints) > 0 {
			c.Errorf("node %s: labels alone are ours: %+v", o.Name, o)
		}
	case "apps/v1 DaemonSet":
		var o apps.DaemonSet
		c.strict(text, &o)
		c.daemon(o)
	case "k8s.cni.cncf.io/v1 NetworkAttachmentDefinition":
		var o multus.NetworkAttachmentDefinition
		c.strict(text, &o)
		c.name(kind, o.Name, validation.IsDNS1123Label)
		c.networks[o.Name] = true
		c.network(o)
	case "kubeflow.org/v1 PyTorchJob":
		var o kubeflow.PyTorchJob
		c.strict(text, &o)
		c.pyTorch(o)
	case "kubeflow.org/v2beta1 MPIJob":
		var o mpi.MPIJob
		c.strict(text, &o)
		c.mpi(o)
	default:
		c.Errorf("%s is not a kind of ours", kind)
	}
	return kind
}

// daemon checks that the pods of a DaemonSet are its own, and see the node as its check must.
func (c checker) daemon(o apps.DaemonSet) {
	c.name("DaemonSet", o.Name, validation.IsDNS1123Label)
	pod := o.Spec.Template.Spec
	selector, err := meta.LabelSelectorAsSelector(o.Spec.Selector)
	if err != nil || !selector.Matches(labels(o.Spec.Template.Labels)) || len(pod.Containers) != 1 || !pod.HostNetwork {
		c.Fatalf("%v: %+v", err, o)
	}
	for name, value := range pod.NodeSelector {
		if wrong := append(validation.IsQualifiedName(name), validation.IsValidLabelValue(value)...); len(wrong) > 0 {
			c.Errorf("label %s: %s: %s", name, value, wrong)
		}
	}
	check := pod.Containers[0]
	if check.ReadinessProbe == nil || check.ReadinessProbe.Exec == nil || check.ReadinessProbe.TimeoutSeconds <= 5 {
		c.Fatalf("a check takes up to 5 s: %+v", check.ReadinessProbe)
	}
	for _, m := range check.VolumeMounts {
		if m.MountPath != check.ReadinessProbe.Exec.Command[1] || !m.ReadOnly {
			c.Errorf("it is not the folder of the check, or it can be written: %+v", m)
		}
	}
	if s := check.SecurityContext; s == nil || s.Privileged != nil || s.Capabilities == nil || len(s.Capabilities.Add) != 1 {
		c.Errorf("it may do more than change its root: %+v", s)
	}
}

func (c checker) name(kind, name string, is func(string) []string) {
	if wrong := is(name); len(wrong) > 0 {
		c.Errorf("%s %q: %s", kind, name, wrong)
	}
	if c.names[kind+name] {
		c.Errorf("two %s are called %s", kind, name)
	}
	c.names[kind+name] = true
}

// pod checks what decoding does not: names of the environment, quantities, volumes, and whether RDMA can work.
func (c checker) pod(annotations map[string]string, spec core.PodSpec) {
	for label, value := range spec.NodeSelector {
		if label != core.LabelHostname || len(validation.IsValidLabelValue(value)) > 0 || value != strings.ToLower(value) {
			c.Errorf("node selector %s: %q", label, value)
		}
	}
	if spec.HostNetwork && spec.DNSPolicy != core.DNSClusterFirstWithHostNet {
		c.Error("a pod in the host's network does not find the cluster's names")
	}
	var volumes []string
	for _, v := range spec.Volumes {
		volumes = append(volumes, v.Name)
		if v.EmptyDir == nil || v.EmptyDir.Medium != core.StorageMediumMemory {
			c.Errorf("volume %s is not in memory", v.Name)
		}
	}
	if len(spec.Containers) != 1 {
		c.Fatalf("%d containers", len(spec.Containers))
	}
	container := spec.Containers[0]
	if wrong := validation.IsDNS1123Label(container.Name); len(wrong) > 0 || container.Image != "IMAGE" || len(container.Command) == 0 {
		c.Errorf("container %s: %s", container.Name, wrong)
	}
	var env []string
	for _, v := range container.Env {
		if wrong := validation.IsEnvVarName(v.Name); len(wrong) > 0 || slices.Contains(env, v.Name) {
			c.Errorf("variable %q: %s, or it is there twice", v.Name, wrong)
		}
		env = append(env, v.Name)
	}
	for _, m := range container.VolumeMounts {
		if !slices.Contains(volumes, m.Name) {
			c.Errorf("volume %s is missing", m.Name)
		}
	}
	plugin := false
	for name, quantity := range container.Resources.Limits {
		plugin = plugin || strings.HasPrefix(string(name), "rdma/")
		if wrong := validation.IsQualifiedName(string(name)); len(wrong) > 0 || quantity.Value() < 1 || !strings.Contains(string(name), "/") {
			c.Errorf("limit %s of %s: %s", name, quantity.String(), wrong)
		}
	}
	privileged := container.SecurityContext != nil && container.SecurityContext.Privileged != nil && *container.SecurityContext.Privileged
	if slices.Contains(env, "NCCL_IB_HCA") && !plugin && !privileged {
		c.Error("the container may not open /dev/infiniband")
	}
	for _, n := range c.selected(annotations) {
		if !c.networks[n.Name] || n.InterfaceRequest == "eth0" || len(n.InterfaceRequest) > 15 || n.InterfaceRequest == "" {
			c.Errorf("network %q as %q", n.Name, n.InterfaceRequest)
		}
	}
}

// selected decodes the annotation for Multus.
func (c checker) selected(annotations map[string]string) (out []multus.NetworkSelectionElement) {
	if text := annotations[multus.NetworkAttachmentAnnot]; text != "" {
		c.json(text, &out)
	}
	return out
}

func (c checker) json(text string, into any) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		c.Fatalf("%v\n%s", err, text)
	}
}

// chain is a list of CNI plugins, with the fields of those that we render, as they read them (containernetworking/plugins v1.9.1:
// main/host-device, ipam/static, meta/sbr, meta/tuning). These packages are programs and cannot be imported.
type chain struct {
	CNIVersion string `json:"cniVersion"`
	Name       string `json:"name"`
	Plugins    []struct {
		Type   string            `json:"type"`
		Device string            `json:"device"`
		MTU    int               `json:"mtu"`
		Sysctl map[string]string `json:"sysctl"`
		IPAM   *struct {
			Type      string `json:"type"`
			Addresses []struct {
				Address netip.Prefix `json:"address"`
			} `json:"addresses"`
			Routes []*types.Route `json:"routes"`
		} `json:"ipam"`
	} `json:"plugins"`
}

// network checks that the chain has a device, that each plugin can do its part, and that the list is one for the CNI library.
func (c checker) network(o multus.NetworkAttachmentDefinition) {
	var list types.NetConfList
	if err := json.Unmarshal([]byte(o.Spec.Config), &list); err != nil || list.Name != o.Name || len(list.Plugins) == 0 {
		c.Fatalf("%v\n%s", err, o.Spec.Config)
	}
	var all chain
	c.json(o.Spec.Config, &all)
	if first := all.Plugins[0]; first.Type != "host-device" || first.Device == "" {
		c.Errorf("the first plugin of %s has no device: %s", o.Name, o.Spec.Config)
	}
	for _, p := range all.Plugins {
		if !slices.Contains([]string{"host-device", "sbr", "tuning"}, p.Type) {
			// rdma works in the exclusive mode alone, in which the RDMA shared device plugin does not start, and needs a device ID.
			c.Errorf("%s: plugin %s", o.Name, p.Type)
		}
		if p.Type == "sbr" && all.Plugins[0].IPAM == nil {
			c.Errorf("%s: sbr fails without an address", o.Name)
		}
		if p.IPAM != nil && (p.IPAM.Type != "static" || len(p.IPAM.Addresses) == 0) {
			c.Errorf("%s: host-device fails without an address", o.Name)
		}
	}
}

// placed checks that the pods of a template are each on another host of the fabric.
func (c checker) placed(template core.PodTemplateSpec, pods int) {
	c.pod(template.Annotations, template.Spec)
	affinity := template.Spec.Affinity
	hosts := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
	apart := affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	selector, err := meta.LabelSelectorAsSelector(apart.LabelSelector)
	if err != nil || hosts.Key != core.LabelHostname || hosts.Operator != core.NodeSelectorOpIn || len(hosts.Values) != pods ||
		apart.TopologyKey != core.LabelHostname || !selector.Matches(labels(template.Labels)) {
		c.Errorf("%d pods: %v on %v, apart by %v: %v", pods, template.Labels, hosts, apart, err)
	}
	if !template.Spec.HostNetwork {
		c.Error("the pods are not in the hosts' network, whose names the settings have")
	}
}

// labels makes a set of labels one that a selector can match.
type labels map[string]string

func (l labels) Has(name string) bool              { _, found := l[name]; return found }
func (l labels) Get(name string) string            { return l[name] }
func (l labels) Lookup(name string) (string, bool) { v, found := l[name]; return v, found }

// pyTorch checks what the operator's webhook checks, and the names that it makes (validatePyTorchJob, v1.9.0).
func (c checker) pyTorch(o kubeflow.PyTorchJob) {
	pods := 0
	for role, r := range o.Spec.PyTorchReplicaSpecs {
		pods += int(*r.Replicas)
		if role != kubeflow.PyTorchJobReplicaTypeMaster && role != kubeflow.PyTorchJobReplicaTypeWorker || role == kubeflow.PyTorchJobReplicaTypeMaster && *r.Replicas != 1 || *r.Replicas < 1 {
			c.Errorf("%d pods are %s", *r.Replicas, role)
		}
		if r.Template.Spec.Containers[0].Name != kubeflow.PyTorchJobDefaultContainerName {
			c.Errorf("the operator does not know container %s", r.Template.Spec.Containers[0].Name)
		}
	}
	for _, r := range o.Spec.PyTorchReplicaSpecs {
		c.placed(r.Template, pods)
		gpus := r.Template.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]
		if *o.Spec.NprocPerNode != gpus.String() {
			c.Errorf("%s ranks for %s GPUs", *o.Spec.NprocPerNode, gpus.String())
		}
	}
	c.name("PyTorchJob", fmt.Sprintf("%s-worker-%d", o.Name, pods), validation.IsDNS1035Label)
}

// mpi checks what the operator checks (ValidateMPIJob, v0.8.0), and that the ranks are as many as the slots.
func (c checker) mpi(o mpi.MPIJob) {
	launcher, worker := o.Spec.MPIReplicaSpecs[mpi.MPIReplicaTypeLauncher], o.Spec.MPIReplicaSpecs[mpi.MPIReplicaTypeWorker]
	if len(o.Spec.MPIReplicaSpecs) != 2 || *launcher.Replicas != 1 || *worker.Replicas < 1 || *o.Spec.RunPolicy.CleanPodPolicy != mpi.CleanPodPolicyRunning ||
		o.Spec.LauncherCreationPolicy != mpi.LauncherCreationPolicyWaitForWorkersReady || o.Spec.RunPolicy.BackoffLimit == nil || *o.Spec.RunPolicy.BackoffLimit != 0 {
		c.Errorf("%v", o.Spec)
	}
	for _, r := range o.Spec.MPIReplicaSpecs {
		if r.RestartPolicy != mpi.RestartPolicyNever {
			c.Errorf("restart policy %s", r.RestartPolicy)
		}
	}
	c.placed(worker.Template, int(*worker.Replicas))
	if launcher.Template.Spec.HostNetwork {
		c.Error("mpirun would take the worker of its own host for itself")
	}
	command := launcher.Template.Spec.Containers[0].Command
	at := slices.Index(command, "-np")
	if want := fmt.Sprint(*worker.Replicas * *o.Spec.SlotsPerWorker); at < 0 || command[at+1] != want || !slices.Equal(command[:2], []string{"sh", "-c"}) || !strings.HasPrefix(command[2], "exec mpirun ") || command[3] != "mpirun" {
		c.Errorf("%s ranks are started by %q", want, command)
	}
	c.name("MPIJob", fmt.Sprintf("%s-worker-%d", o.Name, *worker.Replicas-1), validation.IsDNS1035Label)
	c.name("MPIJob's launcher", o.Name+"-launcher", validation.IsDNS1035Label)
}
