package draft

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// longSequence is from how many keys on a map is written as a sequence: shorter ones are easier to read line by line.
const longSequence = 8

// sequence writes the map as one expression, if its keys and all its values count up with each other, as a person would write the hosts of
// a cluster: { for i in range(1, 17) : format("gpu%02d", i) => { address = cidrhost("10.0.0.0/24", i + 99), number = i } }.
func (l *local) sequence() (string, bool) {
	if len(l.keys) < longSequence {
		return "", false
	}
	head := strings.TrimRight(l.keys[0], "0123456789")
	first, err := strconv.Atoi(l.keys[0][len(head):])
	if err != nil || strings.ContainsAny(head, `%"$\\`) {
		return "", false
	}
	width := len(l.keys[0]) - len(head)
	for i, key := range l.keys {
		if key != fmt.Sprintf("%s%0*d", head, width, first+i) {
			return "", false
		}
	}
	var parts []string
	for _, name := range l.fields {
		value, ok := counted(l.values[name], first)
		if !ok {
			return "", false
		}
		parts = append(parts, l.shown(name)+" = "+value)
	}
	value := "{ " + strings.Join(parts, ", ") + " }"
	if len(l.fields) == 1 {
		_, value, _ = strings.Cut(parts[0], " = ")
	}
	digits := "%d"
	if width > 1 {
		digits = fmt.Sprintf("%%0%dd", width)
	}
	return fmt.Sprintf("{ for i in range(%d, %d) : format(%q, i) => %s }", first, first+len(l.keys), head+digits, value), true
}

// counted writes values that count up with i as one expression: numbers, or addresses of one network.
func counted(values []string, first int) (string, bool) {
	if n, err := strconv.Atoi(values[0]); err == nil {
		for i, v := range values {
			if v != strconv.Itoa(n+i) {
				return "", false
			}
		}
		return plus(n - first), true
	}
	text, err := strconv.Unquote(values[0])
	a, bad := netip.ParseAddr(text)
	if err != nil || bad != nil {
		return "", false
	}
	bits := map[bool]int{true: 24, false: 64}[a.Is4()]
	network := netip.PrefixFrom(a, bits).Masked()
	number, ok := offset(netip.PrefixFrom(a, bits))
	for _, v := range values {
		if v != strconv.Quote(a.String()) || !network.Contains(a) {
			return "", false
		}
		a = a.Next()
	}
	return fmt.Sprintf("cidrhost(%q, %s)", network, plus(number-first)), ok
}

// plus is i with an offset.
func plus(n int) string {
	switch {
	case n < 0:
		return fmt.Sprintf("i - %d", -n)
	case n > 0:
		return fmt.Sprintf("i + %d", n)
	}
	return "i"
}
