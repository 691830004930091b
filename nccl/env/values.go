package env

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// number reports values that strtoll does not read as they look.
func (c *check) number() {
	n := ParseNumber(c.value)
	said := fmt.Sprintf("%s = %q", c.v.Name, c.value)
	switch {
	case n.Overflow:
		c.add(Error, "Value out of NCCL's range", said+" does not fit into 64 bits.", "NCCL uses its default.", c.wanted())
		return
	case !n.Digits:
		instead := c.wanted()
		if c.v.Type == Bool {
			instead = "Write 0 or 1."
			if digit := OnOff(c.value); digit != "" {
				instead = "Write " + digit + "."
			}
		}
		c.add(Error, "Not a number for NCCL", said+" is read as 0.", "", instead)
		return
	case n.Octal:
		c.add(Error, "Not a number for NCCL", fmt.Sprintf("%s is read as %d: a leading 0 means base 8.", said, n.Value), "",
			fmt.Sprintf("Write %s.", strings.TrimLeft(c.value, "0 ")))
	case strings.TrimSpace(n.Rest) != "" && n.Rest == strings.TrimLeft(n.Rest, " \t#"):
		c.add(Error, "Not a number for NCCL", fmt.Sprintf("%s is read as %d.", said, n.Value), "", c.wanted())
	case strings.TrimSpace(n.Rest) != "":
		c.add(Warning, "Text after a number", fmt.Sprintf("%s is read as %d: NCCL stops at the end of the number, and supports comments "+
			"only in column 0.", said, n.Value), "", fmt.Sprintf("Write %d.", n.Value))
	}
	inWords := c.v.Words == nil || slices.Contains(c.v.Words, strconv.FormatInt(n.Value, 10))
	if n.Value < c.v.Min || n.Value > c.v.Max || !inWords {
		c.add(Error, "Value out of NCCL's range", fmt.Sprintf("%s: NCCL accepts %s.", said, c.accepted()), "", c.wanted())
		return
	}
	if d, ok := c.v.DefaultAt(c.Version); ok && d == n.Value || !ok && strconv.FormatInt(n.Value, 10) == firstWord(c.v.Default) {
		c.add(Warning, "Equal to NCCL's default", fmt.Sprintf("%s is NCCL's default.", said),
			"It changes nothing, and distracts from the settings that matter.", "Remove it.")
	}
}

// OnOff returns the digit that a word for on or off means, as people write it for NCCL's variables; "" for another word.
func OnOff(word string) string {
	switch strings.ToLower(strings.TrimSpace(word)) {
	case "true", "yes", "on", "enable", "enabled":
		return "1"
	case "false", "no", "off", "disable", "disabled":
		return "0"
	}
	return ""
}

func firstWord(s string) string {
	w, _, _ := strings.Cut(s, " ")
	return w
}

// accepted describes the numbers that NCCL accepts.
func (c *check) accepted() string {
	switch {
	case c.v.Words != nil:
		return strings.Join(c.v.Words, ", ")
	case c.v.Min == math.MinInt64:
		return "a whole number"
	case c.v.Max == math.MaxInt64:
		return fmt.Sprintf("%d or more", c.v.Min)
	}
	return fmt.Sprintf("%d to %d", c.v.Min, c.v.Max)
}

func (c *check) wanted() string { return "Write " + c.accepted() + "." }

// caseless lists the variables whose words NCCL compares without regard to case.
var caseless = []string{"NCCL_DEBUG", "NCCL_NET_MERGE_POLICY"}

func (c *check) word() {
	same := func(w string) bool { return w == c.value }
	if slices.Contains(caseless, c.v.Name) {
		same = func(w string) bool { return strings.EqualFold(w, c.value) }
	}
	if !slices.ContainsFunc(c.v.Words, same) {
		c.add(Error, "Unknown word", fmt.Sprintf("%s = %q: NCCL accepts %s.", c.v.Name, c.value, strings.Join(c.v.Words, ", ")),
			"NCCL silently ignores other values.", "Write one of these words exactly.")
		return
	}
	if strings.EqualFold(c.value, c.v.Default) {
		c.add(Warning, "Equal to NCCL's default", fmt.Sprintf("%s = %s is NCCL's default.", c.v.Name, c.value),
			"It changes nothing, and distracts from the settings that matter.", "Remove it.")
	}
}

func (c *check) level() {
	if slices.Contains(c.v.Words, c.value) {
		return
	}
	said := fmt.Sprintf("%s = %q", c.v.Name, c.value)
	if l := legacyLevel(c.value); l != "" && c.v.Name != "NCCL_NET_MERGE_LEVEL" {
		costs := "Readers mistake it for a number of hops."
		if c.v.Name == "NCCL_NET_GDR_LEVEL" && (l == "LOC" || l == "PIX") {
			costs += " GPUDirect RDMA is off between GPUs and NICs that are farther apart (nvidia-smi topo -m)."
		}
		c.add(Warning, "Number instead of a level", fmt.Sprintf("%s is an old form that means %s.", said, l),
			costs, "Write "+l+", or remove it: NCCL chooses a level automatically.")
		return
	}
	c.add(Error, "Unknown word", fmt.Sprintf("%s: NCCL accepts %s, in capitals.", said, strings.Join(c.v.Words, ", ")),
		"NCCL silently ignores other values.", "Write one of these words exactly.")
}

// cidr checks NCCL_IB_ADDR_RANGE, which NCCL silently ignores if it is not a network.
func (c *check) cidr() {
	p, err := netip.ParsePrefix(c.value)
	switch {
	case err != nil:
		c.add(Error, "Not a network", fmt.Sprintf("%s = %q is not a network with a prefix length.", c.v.Name, c.value),
			"NCCL ignores it and chooses a GID without it.", `Write one network, such as "10.10.0.0/16".`)
	case p != p.Masked():
		c.add(Warning, "Host bits set in a network", fmt.Sprintf("%s = %q is an address, not a network.", c.v.Name, c.value),
			"NCCL clears the host bits.", fmt.Sprintf("Write %q.", p.Masked()))
	}
}
