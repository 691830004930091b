package apply

import (
	"slices"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/resource"
)

// applied returns what a host is once the session's plan is applied. It has nothing to compare after a destroy, and where the plan leaves out
// changes of the host: what the files declare is then not what the host is.
func (s *Session) applied(host string) *resource.Applied {
	h := s.Fabric.Host(host)
	s.mu.Lock()
	known, incomplete := s.known[host], s.latest.incomplete[host]
	var all []resource.Resource
	if h != nil && known != nil && !s.Options.Destroy && !incomplete {
		all = slices.Concat(s.Options.Resources.Desired(s.Fabric, h), known.derived, known.joined)
	}
	s.mu.Unlock()
	return s.Options.Resources.Kinds.NewApplied(s.Fabric.Name, s.Options.Build, time.Now(), all, func(nic string) bool {
		return s.Fabric.Role(fabric.NICRef{Host: host, NIC: nic}) != ""
	})
}

// keeps reports whether the host keeps this as what was applied last. A host that keeps nothing need not be told that there is nothing.
func (s *Session) keeps(host string, a *resource.Applied) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[host]
	if known == nil {
		return true
	}
	digest := known.applied[s.Fabric.Name]
	return digest == a.Digest() || digest == "" && len(a.Resources) == 0
}
