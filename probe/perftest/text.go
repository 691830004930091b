package perftest

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ParseText parses a program's standard output, with or without its standard error. It ignores unknown lines. An
// error names the first malformed line; the report then has all other lines.
func ParseText(out []byte) (Output, error) {
	p := &textParser{}
	number := 0
	for line := range strings.Lines(string(out)) {
		number++
		if err := p.line(line); err != nil && p.err == nil {
			p.err = fmt.Errorf("perftest's line %d: %w", number, err)
		}
	}
	return p.report, p.err
}

type textParser struct {
	report  Output
	columns []column   // of the table being read; nil outside of one
	last    *[]Address // addresses whose last one gets the next GID
	err     error      // the first
}

func (p *textParser) line(line string) error {
	text := strings.TrimSpace(line)
	switch {
	case text == "":
		return nil
	case strings.HasPrefix(text, "#bytes"):
		p.columns = header(text)
		return nil
	case strings.HasPrefix(text, "-----"):
		p.columns = nil
		return nil
	case p.columns != nil:
		return p.row(text)
	case strings.HasSuffix(text, " Test"):
		p.title(text)
		return nil
	}
	return p.fact(text)
}

// title parses a title such as "RDMA_Write Bidirectional BW Test" (ctx_print_test_info in perftest_parameters.c).
func (p *textParser) title(text string) {
	verb, rest, _ := strings.Cut(text, " ")
	kind := "_bw"
	switch {
	case strings.Contains(rest, "Latency "):
		kind = "_lat"
	case !strings.Contains(rest, "BW "):
		return
	}
	name, ok := map[string]Test{"Send": "send", "RDMA_Write": "write", "RDMA_Read": "read"}[verb]
	if !ok {
		return
	}
	p.report.Test = name + Test(kind)
	p.report.Bidirectional = strings.Contains(rest, "Bidirectional ")
}

// fact parses a line above the table: one or two "label : value", or a queue pair's address.
func (p *textParser) fact(text string) error {
	if rest, ok := strings.CutPrefix(text, "local address:"); ok {
		return p.address(&p.report.Local, rest)
	}
	if rest, ok := strings.CutPrefix(text, "remote address:"); ok {
		return p.address(&p.report.Remote, rest)
	}
	if rest, ok := strings.CutPrefix(text, "GID:"); ok {
		return p.gid(strings.TrimSpace(rest))
	}
	if rest, ok := strings.CutPrefix(text, "Version:"); ok {
		p.report.Version = strings.TrimSpace(rest)
	}
	r := &p.report
	for _, f := range []struct {
		label string
		text  *string
	}{{"Device", &r.Device}, {"Transport type", &r.Transport}, {"Connection type", &r.Connection}, {"Link type", &r.LinkType}} {
		if v, ok := value(text, f.label); ok {
			*f.text = v
		}
	}
	var err error
	number := func(label, unit string, to *int) {
		if v, ok := value(text, label); ok {
			n, e := strconv.Atoi(strings.TrimSuffix(v, unit))
			if e != nil {
				err = errors.Join(err, fmt.Errorf("%s is %.40q, which is not a number", label, v))
				return
			}
			*to = n
		}
	}
	number("Number of qps", "", &r.QPs)
	number("Mtu", "[B]", &r.MTU)
	gid := -1
	number("GID index", "", &gid)
	number("Gid index", "", &gid) // before 2016
	if gid >= 0 {
		r.GIDIndex = &gid
	}
	return err
}

// value finds "label   : value" at the beginning of the text or after a gap. The value ends at the next gap: two
// pairs can share a line, with tabs between them.
func value(text, label string) (string, bool) {
	at := strings.Index(text, label)
	if at < 0 || at > 0 && text[at-1] != ' ' && text[at-1] != '\t' {
		return "", false
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(text[at+len(label):], " \t"), ":")
	if !ok {
		return "", false
	}
	rest = strings.TrimLeft(rest, " \t")
	if i := strings.IndexByte(rest, '\t'); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.Index(rest, "  "); i >= 0 {
		rest = rest[:i]
	}
	return strings.TrimSpace(rest), true
}

// address parses "LID 0000 QPN 0x0011 PSN 0x1a2b3c …" (BASIC_ADDR_FMT in perftest_communication.h),
// hexadecimal with and without 0x.
func (p *textParser) address(to *[]Address, text string) error {
	var a Address
	fields := strings.Fields(text)
	for i := 0; i+1 < len(fields); i += 2 {
		target := map[string]*int{"LID": &a.LID, "QPN": &a.QPN, "PSN": &a.PSN}[fields[i]]
		if target == nil {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(fields[i+1], "0x"), 16, 32)
		if err != nil {
			return fmt.Errorf("%s is %.40q, which is not a hexadecimal number", fields[i], fields[i+1])
		}
		*target = int(n)
	}
	*to = append(*to, a)
	p.last = to
	return nil
}

// gid parses the 16 decimal bytes (PERF_GID_FMT in perftest_communication.h) of the previous address's GID.
func (p *textParser) gid(text string) error {
	var raw [16]byte
	parts := strings.SplitN(text, ":", len(raw)+1)
	if len(parts) != len(raw) {
		return fmt.Errorf("GID %.60q does not have 16 bytes", text)
	}
	for i, part := range parts {
		n := digits(part)
		if n < 0 || n > 255 {
			return fmt.Errorf("GID %.60q: %.20q is not a byte", text, part)
		}
		raw[i] = byte(n)
	}
	if p.last == nil {
		return errors.New("a GID without an address before it")
	}
	(*p.last)[len(*p.last)-1].GID = netip.AddrFrom16(raw)
	return nil
}
