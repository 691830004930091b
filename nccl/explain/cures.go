package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/nccl/env"
)

// cure is something that people say helps, and what it shows.
type cure struct {
	name    string // the variable; "": another thing
	set     *expression
	summary string
	costs   string
	instead string
}

// to returns an expression for a variable with a value, as sentences have them: NAME=1, NAME to 1, `NAME` as "1".
func to(name, value string) *expression {
	return compile("(?i)" + name + "[`'\"]* *(?:(?:env(?:ironment)? )?var(?:iable)? *)?(?:=|(?:to be|to|as|is)\\b) *[`'\"]*(?:" + value + ")")
}

// knownCures are tried in this order: the more frequent ones come first.
var knownCures = sync.OnceValue(func() []cure {
	return []cure{
		{"NCCL_P2P_DISABLE", to("(?:NCCL_)?P2P_DISABLE", "1|true"), "Direct access between GPUs does not work",
			"Then what a GPU writes into another one's memory does not arrive: PCI access control (ACS) or the IOMMU redirects it, a virtual machine is between them, or the driver claims an access that these GPUs do not have. The variable goes around it, and is slower.",
			"Disable ACS in the system's firmware, set the IOMMU to passthrough (iommu=pt), and update the driver; p2pBandwidthLatencyTest of CUDA's samples shows whether it works then. In a virtual machine keep the variable."},
		{"NCCL_IB_DISABLE", to("(?:NCCL_)?IB_DISABLE", "1|true"), "RDMA does not work",
			"Then a NIC, its port or its GID, the path between two NICs, or the registration of memory fails. The variable goes around it with TCP sockets, which are slower.",
			"Without it, the first NCCL WARN line (NCCL_DEBUG=INFO) names what fails. Measure between these NICs with ib_write_bw or `fabricform verify`; NCCL_NET_GDR_LEVEL=LOC alone shows whether it is GPUDirect RDMA."},
		{"", compile(`(?i)\b(?:over|with|using|in|use|via|by|under) (?:nccl )?(?:the )?(?:tcp(?:/ip)?|sockets?)(?: (?:mode|transport|sockets?))?\b|\bNCCL_NET[= ]+["'\x60]?Socket`), "RDMA does not work",
			"Over TCP it runs: then the ranks meet, and a NIC, its port or GID, the path of RDMA between two NICs, or the registration of GPU memory fails.",
			"The first NCCL WARN line (NCCL_DEBUG=INFO) names what fails. Measure between these NICs with ib_write_bw or `fabricform verify` (GIDs, MTU, PFC); NCCL_NET_GDR_LEVEL=LOC alone shows whether it is GPUDirect RDMA."},
		{"NCCL_SHM_DISABLE", to("(?:NCCL_)?SHM_DISABLE", "1|true"), "Shared memory cannot be used",
			"Then /dev/shm is too small, the ranks are in containers that do not share it, or NCCL takes two hosts with one name for the same host.",
			"Check df /dev/shm in the container (docker --shm-size=8g or --ipc=host), and that hosts have different names. The variable goes around it, and is slower."},
		{"NCCL_SOCKET_IFNAME", to("NCCL_SOCKET_IFNAME", `=?[a-z][\w.,-]*`), "NCCL chose another interface",
			"Without it, NCCL takes the first interface that it finds, which here does not reach the other ranks: one of Docker, of a management network or of a VPN, or one whose traffic a firewall or a proxy (Istio) takes.",
			"Keep the variable, with = in front of a name that is right on every host; lo is right on one host alone."},
		{"NCCL_IB_GID_INDEX", to("NCCL_IB_GID_INDEX", `\d`), "NCCL chose another GID",
			"Without it, NCCL takes a GID of a kind, network or namespace that the peer does not reach: version 2.21 and later choose by NCCL_IB_ROCE_VERSION_NUM and NCCL_IB_ADDR_RANGE, earlier ones take index 0, and up to 2.25.1 a gap in the table ends the choice.",
			"See show_gids on every host. Keep the variable while each device of NCCL_IB_HCA has an address at that index, or upgrade NCCL."},
		{"NCCL_NVLS_ENABLE", to("(?:NCCL_)?NVLS_ENABLE", "0"), "NVLink SHARP (NVLS) cannot be set up",
			"Then multicast over NVSwitch fails, for which Fabric Manager must run (in a virtual machine, that of the host).",
			"See systemctl status nvidia-fabricmanager and nvidia-smi -q (Fabric: State Completed). The variable goes around it."},
		{"NCCL_NET_GDR_LEVEL", to("NCCL_NET_GDR_LEVEL", "LOC|0"), "GPUDirect RDMA does not work",
			"Then what a NIC writes into a GPU's memory does not arrive, or is refused: PCI access control (ACS) or the IOMMU redirects it, the NIC's or the GPU's driver does not fit, or a PCIe bridge between the two does not forward it.",
			"Compare lspci -vvv (ACSCtl, no ReqRedir+) of all bridges between GPU and NIC, firmware and drivers with a host or a NIC that works, and measure with ib_write_bw --use_cuda. The variable goes through the host's memory, and is slower."},
		{"NCCL_P2P_LEVEL", to("NCCL_P2P_LEVEL", "LOC|0"), "Direct access between GPUs does not work",
			"NCCL_P2P_LEVEL=LOC keeps GPUs of one host from direct access, as NCCL_P2P_DISABLE=1 does; it does not change GPUDirect RDMA, for which NCCL_NET_GDR_LEVEL is. What a GPU writes into another one's memory does not arrive: ACS or the IOMMU redirects it, a virtual machine is between them, or a link or GPU is faulty.",
			"Disable ACS, set the IOMMU to passthrough (iommu=pt), and update the driver; p2pBandwidthLatencyTest of CUDA's samples shows which pair of GPUs fails."},
		{"", compile(`(?i)\b(?:amd_iommu=(?:off|pt)|intel_iommu=off|iommu=(?:pt|soft|off)|(?:disabl\w+|turn\w* off|switch\w* off) (?:the )?(?:IOMMU|ACS|VT-d)\b|(?:IOMMU|ACS|VT-d)\b.{0,20}\b(?:disabled|off)\b)`), "Direct access between GPUs does not work",
			"Then the IOMMU or PCI access control (ACS) had redirected what one GPU or NIC writes to another.",
			"Keep it off where the host runs no virtual machines: iommu=pt on the kernel's command line, and ACS off in the firmware or by setpci at each boot."},
		{"", compile(`--ipc[= ]+["']?host|--shm-size[= ]*\d*|\bipc: ["']?host`), "/dev/shm is too small",
			"Then NCCL, or the program's data loaders, had no room for shared memory: Docker gives a container 64 MiB.",
			"Keep it, and give it to every container of the job: --shm-size=8g is enough for most; in Kubernetes it is an emptyDir with medium: Memory."},
		{"", compile(`(?i)\b(?:chang|upgrad|downgrad|updat|switch|revert|roll)(?:e|es|ed|ing|ching|ched)?\b(?: (?:the|my|our|back|nccl|version|of|from [\d.·]+)){0,4} to (?:nccl |version |v)*2[.·]\d+[.·]\d+|\bnccl (?:version )?v?2[.·]\d+[.·]\d+ (?:is|was) (?:ok|okay|fine)\b`), "Another version of NCCL helps",
			"Then the one before has a fault, or does not fit the driver, the GPUs, or the version of the other ranks.",
			"Keep the version that works, on all ranks, and see that no second NCCL is loaded (LD_LIBRARY_PATH, the package nvidia-nccl-cu12 of pip). The release notes between the two may name the fault."},
		{"NCCL_CUMEM_ENABLE", to("(?:NCCL_)?CUMEM_ENABLE", "0"), "CUDA's cuMem calls fail",
			"Then memory that CUDA shares by handles cannot be used: an old driver, a container without the rights for it, or a virtual machine.",
			"Update the driver and NCCL. The variable goes around it."},
	}
})

// inNumbers is a point in a number, which ends no sentence.
var inNumbers = pattern{text: `(\d)\.\b`}

// sayings are expressions for what sentences say of settings that somebody tried.
type sayings struct {
	noRDMA     *expression // that hosts have no RDMA to lose
	onlySets   *expression // a part of a sentence that only has another setting
	whenSet    *expression // a sentence about what was tried
	couldWork  *expression // words that do not doubt, although they have one that mostly does
	thanked    *expression // a sentence that says that what was advised before it helps
	leads      *expression // a line that only leads to the command below it
	setsDirect *expression // a line that has the setting alone or before a program, of which the line before it may speak
	helps      *expression // that it helps
	stillFails *expression // that a setting did not help
	helpsNot   *expression // or does not, or asks
}

var said = sync.OnceValue(func() sayings {
	return sayings{
		noRDMA:     compile(`(?i)(?:without|\bno|not have|n't have|lacks?|missing|only) (?:an? |any )?(?:ib\b|infiniband|rdma|ethernet|tcp)`),
		onlySets:   compile("^[ `]*(?:and |export )?[A-Z][A-Z0-9_]+=[`\\w]+[ `]*$"),
		whenSet:    compile(`(?i)^\s*(?:and |but )?(?:i (?:have )?(?:noticed|found) (?:out )?(?:that )?)?if (?:i |we |you |one )?(?:set|sets|use|ran|run|add|disable)`),
		couldWork:  compile(`(?i)\bcould (?:work|run)\b(?: (?:well|fine|normally|successfully))`),
		thanked:    compile(`(?i)\b(?:your|this|that|the|above) (?:method|solution|suggestion|advice|approach|workaround|fix|trick|setting|variable)s? (?:has |have |indeed |really |also )?(?:solve|work|fix|help|resolve|did the trick)|\bthanks?\b.{0,40}\b(?:(?:it|that|this) (?:works|worked|helps|helped|solved|fixed|resolved|did it)|problem (?:is )?solved)`),
		leads:      compile(`(?i)^(?:so )?(?:you|we|just|please)\b.{0,20}\b(?:set|export|use|add|run|try)\b.{0,40}$`),
		setsDirect: compile("^[ \t`$]*(?:export +)?NCCL_P2P_DISABLE=['\"]?1['\" \t`.]*(?:python|torchrun|accelerate|vllm|\\./|\r?\n?$)"),
		helps:      compile(`(?i)\bprevents? (?:the |this |a )?(?:hang|deadlock|crash)|\b(?:disabl|avoid|prevent)\w* [^.]{0,60}\b(?:that|which) caus(?:es?|ed|ing) (?:the |this |a )?(?:hang|deadlock|crash)|\bunless\b|\bsuccee(?:ds?|ded)\b|\bsuccessful(?:ly)?\b|\b(?:is|was) (?:ok|okay|fine)\b|\bpass(?:es|ed)\b|\bwork(?:s|ed|ing|around)\b|\b(?:it|to) work\b|\bhelp|\bfix|\bs(?:ol|lo)v|\bresolv|no longer hang|\bwork fine\b|\b(?:goes|going|runs?) (?:well|fine)\b|\b(?:no|without|not any) (?:any )?(?:problems?|issues?)\b|可以|解决|成功|正常`),
		stillFails: compile(`(?i)\bstill (?:see|get|hang|fail|stuck|crash|the same|not)|n['o]t (?:work|help|fix|solve|resolve)|no (?:effect|luck|help|difference)|没用|无效`),
		helpsNot:   compile(`(?i)n['o]t (?:work|help|fix|solve|resolve|make)|no (?:effect|luck|help|difference)|\bstill\b|without success|unable|could|whether|\bif\b|\btry\b|\?|\b(?:ping|ssh|telnet|nc|netcat|iperf3?|r?ping|ib_\w+|single[- ]node|one node|one machine)s?\b[^.]{0,40}\b(?:works?|worked|working|fine|ok|okay)\b|不能|无法|没用|无效`),
	}
})

// cured reports what a cure shows that somebody says helps, in that sentence or in a later one that thanks for it, and notes one that did
// not.
func (s *script) cured(number int, line string) {
	tell := said()
	clauses := strings.FieldsFunc(inNumbers.re().ReplaceAllString(line, "$1·"), func(c rune) bool { return strings.ContainsRune(".,;:!，。", c) })
	says := func(s string) bool {
		s = tell.couldWork.ReplaceAllString(s, "works")
		return tell.helps.MatchString(s) && !tell.helpsNot.MatchString(tell.whenSet.ReplaceAllString(s, ""))
	}
	thanked := slices.ContainsFunc(clauses, func(s string) bool { return tell.thanked.MatchString(s) && !tell.helpsNot.MatchString(s) })
	advised, before := s.advised, s.advisedAt
	cures := func(setting *expression) bool {
		i := slices.IndexFunc(clauses, setting.MatchString)
		if i < 0 || says(clauses[i]) {
			return i >= 0
		}
		first := clauses[i] // which may deny what the next says
		for i++; i < len(clauses) && tell.onlySets.MatchString(clauses[i]); i++ {
		}
		return i < len(clauses) && says(first+" "+clauses[i])
	}
	for i, c := range knownCures() {
		if c.name != "" && c.set.MatchString(line) {
			s.advised, s.advisedAt = c.name, number
		}
		if works := cures(c.set) || thanked && c.name != "" && c.name == advised && number > before; !works || c.summary == "RDMA does not work" && tell.noRDMA.MatchString(line) || c.summary == "RDMA does not work" && c.name == "" && !s.rdmaTold {
			continue
		}
		costs := c.costs
		for _, other := range knownCures()[i+1:] {
			if other.name != "" && strings.Contains(line, other.name) {
				costs += fmt.Sprintf(" %s stands beside it: each alone shows which of them helps (the other is for: %s).", other.name, strings.ToLower(other.summary[:1])+other.summary[1:])
				s.helped = append(s.helped, other.name)
			}
		}
		s.helped = append(s.helped, c.name)
		value, _, _ := strings.Cut(cmp.Or(c.set.FindString(line), c.name), "\n")
		s.add(number, env.Finding{Severity: env.Warning, Name: c.name, Summary: c.summary, Wrong: "The text says that " + strings.Trim(value, "`'\" .,") + helps, Costs: costs, Instead: c.instead})
		return
	}
	if i := slices.IndexFunc(clauses, knownCures()[0].set.MatchString); i >= 0 && tell.stillFails.MatchString(strings.Join(clauses[i:min(i+2, len(clauses))], " ")) {
		s.tried = append(s.tried, setting{line: number, name: knownCures()[0].name, value: "1"})
	}
}
