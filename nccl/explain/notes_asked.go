package explain

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/nccl/env"
)

// telling is what a sentence tells or asks of, and what is known about that.
type telling struct {
	says    *regexp.Regexp
	beside  *regexp.Regexp // what the rest of the text must have
	finding env.Finding
}

// tellings are for texts in which nothing else was found.
var tellings = sync.OnceValue(func() []telling {
	rdma := slowly().overRDMA
	return []telling{
		{regexp.MustCompile(`(?i)\brendez-?vous\b[^.\n]{0,30}\btim(?:es|ed|e|ing)[ -]?out`), regexp.MustCompile(`torchrun|torch\.distributed|rdzv`),
			env.Finding{Summary: "The rendezvous failed", Wrong: "The text tells of a rendezvous that times out.", Costs: "Nobody listens at the rendezvous address, or it is not reached. With c10d, only a torchrun listens that finds its own host's name or address in --rdzv-endpoint: a host with several NICs, or a pod whose hostname is short where the endpoint is a full name, does not take itself for it.",
				Instead: "Write the endpoint as rank 0's host knows itself (hostname, hostname -I), or start it there with --rdzv-conf is_host=1 and elsewhere with is_host=0. " + rendezvous}},
		{regexp.MustCompile(`(?i)\b(?:without|no|(?:are|is)n['’]t|(?:are|is|was|were) not|(?:do|does)n['’]t have|lacks?)\b(?: (?:an?|any|assigned|given|have|having))*\b[^.\n]{0,12}\bip(?:v4)? ?address(?:es)?\b`), rdma,
			env.Finding{Summary: "NIC without an address", Wrong: "The text tells of interfaces without an IP address.", Costs: "RoCE v2 between hosts uses the GID of an IPv4 address, which a NIC without one does not have: connections fail, or get a link-local GID. On InfiniBand no address is needed, except for the bootstrap's own interface.",
				Instead: "Give each NIC that NCCL is to use over RoCE an IPv4 address, in its own host or pod (NCCL_IB_HCA leaves the others out); show_gids lists what each has."}},
		{regexp.MustCompile(`(?i)\bnics?\b[^.\n]{0,60}\b(?:single|same|one)\b[^.\n]{0,30}\bsubnet`), rdma,
			env.Finding{Summary: "Two NICs in one subnet", Wrong: "The text tells of several NICs in one subnet.", Costs: "If they are of one host: the kernel sends traffic to that network through one of them, whichever address a program is bound to, and answers for all (ARP flux). RDMA over the others fails or waits, unless each has a rule for its source address.",
				Instead: "Give each NIC of a host a subnet of its own, the same rail in the same subnet on all hosts; or rules for each source address with arp_ignore=1 and arp_announce=2, as a policy_route declares."}},
	}
})

// asked reports what a text without a finding tells or asks of.
func (s *script) asked(text string, skip func(number int) bool) {
	if len(s.helped) > 0 || slices.ContainsFunc(s.out, func(f Finding) bool { return f.Severity != env.Note }) {
		return
	}
	number := 0
	for line := range strings.Lines(text) {
		if number++; skip(number) || anyOf(line, printers) || strings.HasPrefix(strings.TrimSpace(line), "#SBATCH") {
			continue
		}
		for _, t := range tellings() {
			if t.says.MatchString(line) && t.beside.MatchString(text) {
				t.finding.Severity = env.Warning
				s.add(number, t.finding)
				return
			}
		}
	}
}
