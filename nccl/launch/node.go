package launch

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/fabric"
)

// labelDomain begins the names of the nodes' labels.
const labelDomain = "fabricform/"

// nodeNameShape is what a Kubernetes node may be called (RFC 1123 subdomain), and labelPart what may be a value of a label, or the last part
// of a label's name.
var (
	nodeNameShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`) })
	labelPart     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`) })
)

// KubernetesNode renders, from the files alone, what belongs on the nodes of a cluster: labels that say which networks and cables a node is
// on, and a DaemonSet whose pods are ready where `fabricform health` has nothing to report. Its pods see the network and the files
// of the node, because they check these, and run the node's own fabricform: the state of the last apply is that of its release.
func KubernetesNode(f *fabric.Fabric) ([]byte, error) {
	if !labelPart().MatchString(f.Name) {
		return nil, fmt.Errorf("fabric %s: its name cannot be the value of a Kubernetes label: let it end with a letter or a digit", f.Name)
	}
	labels := map[string]map[string]string{}
	for _, h := range f.Hosts {
		labels[h.Name] = map[string]string{labelDomain + "fabric": f.Name}
	}
	add := func(kind, name string, r fabric.NICRef) error {
		key := kind + "." + name
		if !labelPart().MatchString(key) || !labelPart().MatchString(r.NIC) {
			return fmt.Errorf("%s %s of NIC %s: both names must end with a letter or a digit, and be short enough for a Kubernetes label (%s%s: %s, 63 characters each)",
				kind, name, r, labelDomain, key, r.NIC)
		}
		labels[r.Host][labelDomain+key] = r.NIC
		return nil
	}
	for _, n := range f.Networks {
		for _, m := range n.Members {
			if err := add("network", n.Name, m); err != nil {
				return nil, err
			}
		}
	}
	for _, l := range f.Links {
		for _, m := range l.Endpoints {
			if err := add("link", l.Name, m); err != nil {
				return nil, err
			}
		}
	}

	var s script
	s.line("# fabricform render kubernetes -for node, fabric %s", f.Name)
	s.line("# kubectl apply --server-side -f FILE")
	s.line("# The nodes have the names of the files' hosts, in lower case. Compare them with kubectl get nodes first: a Node that does not exist")
	s.line("# would be created. A label's value is the NIC of the files.")
	taken := map[string]string{}
	for _, h := range f.Hosts {
		name := strings.ToLower(h.Name)
		if !nodeNameShape().MatchString(name) {
			return nil, fmt.Errorf("host %s: its name cannot be that of a Kubernetes node: use letters, digits, hyphens and dots", h.Name)
		}
		if taken[name] != "" {
			return nil, fmt.Errorf("hosts %s and %s would both be node %s in Kubernetes: rename one of them", taken[name], h.Name, name)
		}
		taken[name] = h.Name
		s.line("apiVersion: v1")
		s.line("kind: Node")
		s.line("metadata:")
		s.line("  name: %s", yaml(name))
		s.line("  labels:")
		for _, key := range slices.Sorted(maps.Keys(labels[h.Name])) {
			s.line("    %s: %s", yaml(key), yaml(labels[h.Name][key]))
		}
		s.line("---")
	}
	s.line("# A pod is ready while its node is as it was applied, and where that is not known: `kubectl get pods -l app=fabricform-health -o wide`,")
	s.line("# and `kubectl describe pod` has the differences. It drains nothing. fabricform must be installed on the nodes; the image needs a shell.")
	s.line("apiVersion: apps/v1")
	s.line("kind: DaemonSet")
	s.line("metadata:")
	s.line("  name: fabricform-health")
	s.line("spec:")
	s.line("  selector: {matchLabels: {app: fabricform-health}}")
	s.line("  template:")
	s.line("    metadata: {labels: {app: fabricform-health}}")
	s.line("    spec:")
	s.line("      hostNetwork: true")
	s.line("      nodeSelector: {%s: %s}", yaml(labelDomain+"fabric"), yaml(f.Name))
	s.line("      automountServiceAccountToken: false")
	s.line("      tolerations:")
	s.line("      - {operator: Exists} # a node that is cordoned or tainted is checked, too")
	s.line("      containers:")
	s.line("      - name: health")
	s.line("        image: IMAGE")
	s.line("        command: [sh, -c, \"trap 'exit 0' TERM; while :; do sleep 3600 & wait; done\"]")
	s.line("        readinessProbe:")
	s.line("          exec: {command: [chroot, /host, /usr/bin/fabricform, health]}")
	s.line("          periodSeconds: 60")
	s.line("          timeoutSeconds: 10 # the check itself ends after 5")
	s.line("          failureThreshold: 1")
	s.line("        securityContext:")
	s.line("          runAsUser: 0 # only root may read what was applied")
	s.line("          allowPrivilegeEscalation: false")
	s.line("          readOnlyRootFilesystem: true")
	s.line("          capabilities: {drop: [ALL], add: [SYS_CHROOT]}")
	s.line("        volumeMounts:")
	s.line("        - {name: host, mountPath: /host, readOnly: true}")
	s.line("      volumes:")
	s.line("      - name: host")
	s.line("        hostPath: {path: /}")
	return s.Bytes(), nil
}
