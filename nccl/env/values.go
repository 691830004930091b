package env

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// number finds what strtoll reads as something else than it looks like.
func (c *check) number() {
	n := ParseNumber(c.value)
	said := fmt.Sprintf("%s = %q", c.v.Name, c.value)
	switch {
	case n.Overflow:
		c.add(Error, "Value out of NCCL's range", said+" does not fit into 64 bits.", "NCCL takes its default.", c.wanted())
		return
	case !n.Digits:
		instead := c.wanted()
		if c.v.Type == Bool {
			instead = "Write 0 or 1."
		}
		c.add(Error, "NCCL wants a number", said+" is read as 0.", "", instead)
		return
	case n.Octal:
		c.add(Error, "NCCL wants a number", fmt.Sprintf("%s is read as %d: a leading 0 means base 8.", said, n.Value), "", fmt.Sprintf("Write %s.", strings.TrimLeft(c.value, "0 ")))
	case strings.TrimSpace(n.Rest) != "" && n.Rest == strings.TrimLeft(n.Rest, " \t#"):
		c.add(Error, "NCCL wants a number", fmt.Sprintf("%s is read as %d.", said, n.Value), "", c.wanted())
	case strings.TrimSpace(n.Rest) != "":
		c.add(Warning, "Text after a number", fmt.Sprintf("%s is read as %d: NCCL stops at the number's end, and knows comments in column 0 only.", said, n.Value), "", fmt.Sprintf("Write %d.", n.Value))
	}
	inWords := c.v.Words == nil || slices.Contains(c.v.Words, strconv.FormatInt(n.Value, 10))
	if n.Value < c.v.Min || n.Value > c.v.Max || !inWords {
		c.add(Error, "Value out of NCCL's range", fmt.Sprintf("%s: NCCL takes %s.", said, c.takes()), "", c.wanted())
		return
	}
	if d, ok := c.v.DefaultAt(c.Version); ok && d == n.Value || !ok && strconv.FormatInt(n.Value, 10) == firstWord(c.v.Default) {
		c.add(Warning, "Equal to NCCL's default", fmt.Sprintf("%s is what NCCL does by itself.", said), "It changes nothing, and hides what does.", "Leave it out.")
	}
}

func firstWord(s string) string {
	w, _, _ := strings.Cut(s, " ")
	return w
}

// takes says what numbers are allowed.
func (c *check) takes() string {
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

func (c *check) wanted() string { return "Write " + c.takes() + "." }

// caseless are the words that NCCL compares without regard to case.
var caseless = []string{"NCCL_DEBUG", "NCCL_NET_MERGE_POLICY"}

func (c *check) word() {
	same := func(w string) bool { return w == c.value }
	if slices.Contains(caseless, c.v.Name) {
		same = func(w string) bool { return strings.EqualFold(w, c.value) }
	}
	if !slices.ContainsFunc(c.v.Words, same) {
		c.add(Error, "Word that NCCL does not know", fmt.Sprintf("%s = %q: NCCL knows %s.", c.v.Name, c.value, strings.Join(c.v.Words, ", ")), "It skips other words without a word of its own.", "Write one of them, exactly so.")
		return
	}
	if strings.EqualFold(c.value, c.v.Default) {
		c.add(Warning, "Equal to NCCL's default", fmt.Sprintf("%s = %s is what NCCL does by itself.", c.v.Name, c.value), "It changes nothing, and hides what does.", "Leave it out.")
	}
}

func (c *check) level() {
	if slices.Contains(c.v.Words, c.value) {
		return
	}
	said := fmt.Sprintf("%s = %q", c.v.Name, c.value)
	if l := LegacyLevel(c.value); l != "" && c.v.Name != "NCCL_NET_MERGE_LEVEL" {
		c.add(Warning, "Number where a level belongs", fmt.Sprintf("%s is an old form that means %s.", said, l), "Readers take it for another number of hops.", "Write "+l+", or leave it out: NCCL finds out by itself.")
		return
	}
	c.add(Error, "Word that NCCL does not know", fmt.Sprintf("%s: NCCL knows %s, in capitals.", said, strings.Join(c.v.Words, ", ")), "It skips other words without a word of its own.", "Write one of them, exactly so.")
}

// cidr checks NCCL_IB_ADDR_RANGE, which NCCL skips silently where it is no network.
func (c *check) cidr() {
	p, err := netip.ParsePrefix(c.value)
	switch {
	case err != nil:
		c.add(Error, "Not a network", fmt.Sprintf("%s = %q is no network with a prefix length.", c.v.Name, c.value), "NCCL skips it, and chooses a GID as if it were not there.", `Write one network, such as "10.10.0.0/16".`)
	case p != p.Masked():
		c.add(Warning, "Host bits set in a network", fmt.Sprintf("%s = %q is an address, not a network.", c.v.Name, c.value), "NCCL cuts the host bits off.", fmt.Sprintf("Write %q.", p.Masked()))
	}
}
