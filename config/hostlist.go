package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Limits of a hostlist. Slurm limits each range to 65,536 names (MAX_RANGE in src/common/hostlist.c).
const (
	maxHostlist       = 1 << 16 // names
	maxHostlistDigits = 18      // of a number in brackets: it must fit 64 bits
)

var hostlistFunc = function.New(&function.Spec{Params: stringParams(1), Type: function.StaticReturnType(cty.List(cty.String)),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		names, err := hostlist(args[0].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgError(0, err)
		}
		if len(names) == 0 {
			return cty.ListValEmpty(cty.String), nil
		}
		out := make([]cty.Value, len(names))
		for i, n := range names {
			out[i] = cty.StringVal(n)
		}
		return cty.ListVal(out), nil
	}})

// hostlist returns the names that a host list of Slurm stands for, in the order of `scontrol show hostnames`, duplicates included.
// What it accepts means the same to Slurm 22.05, except that a line break is as good as a comma. It rejects what Slurm reads in a way that nobody means, such as "a[1-2" as one name.
func hostlist(text string) (names []string, err error) {
	for size := 0; ; {
		text = strings.TrimLeft(text, hostlistSeparators)
		if text == "" {
			return names, nil
		}
		end := itemEnd(text)
		item, err := parseHostItem(text[:end])
		if err != nil {
			return nil, err
		}
		text = text[end:]
		for more := true; more; more = item.next() {
			name := item.name()
			if size += len(name); len(names) == maxHostlist || size > maxValue {
				return nil, fmt.Errorf("the host list has more than %d names, or names that are too long: look for a range with a digit too many, or split the list",
					maxHostlist)
			}
			names = append(names, name)
		}
	}
}

const hostlistSeparators = ", \t\n"

// itemEnd returns where the first item of a list ends: at a separator outside brackets, or at the end of the text.
func itemEnd(text string) int {
	inside := false
	for i := range len(text) {
		switch c := text[i]; {
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case !inside && strings.IndexByte(hostlistSeparators, c) >= 0:
			return i
		}
	}
	return len(text)
}

// hostItem is one item of a host list: texts, each followed by a bracket, or one text alone.
type hostItem struct {
	texts    []string
	brackets []hostBracket
}

// hostBracket is the ranges of one bracket, and where the item stands in them.
type hostBracket struct {
	ranges []hostRange
	at     int
	offset uint64
}

// hostRange is a range of numbers, both included, padded with zeros to the width.
type hostRange struct {
	low, high uint64
	width     int
}

func parseHostItem(text string) (hostItem, error) {
	var item hostItem
	for rest := text; rest != ""; {
		before, after, opens := strings.Cut(rest, "[")
		if strings.Contains(before, "]") {
			return item, fmt.Errorf("%s has a ] without a [ before it: write a range as in gpu[01-16]", shown(text))
		}
		if !opens {
			if len(item.brackets) > 0 {
				return item, fmt.Errorf("%s has text after its last bracket, which Slurm rejects: add it to each name, as in "+
					`[for n in hostlist("gpu[1-2]") : "${n}-ib"]`, shown(text))
			}
			item.texts = append(item.texts, before)
			return item, nil
		}
		inside, after, closes := strings.Cut(after, "]")
		if !closes || strings.Contains(inside, "[") {
			return item, fmt.Errorf("%s has a [ without a ] after it: write a range as in gpu[01-16]", shown(text))
		}
		b := hostBracket{}
		for part := range strings.SplitSeq(inside, ",") {
			r, err := parseHostRange(part)
			if err != nil {
				return item, fmt.Errorf("%s: %w", shown(text), err)
			}
			b.ranges = append(b.ranges, r)
		}
		item.texts, item.brackets = append(item.texts, before), append(item.brackets, b)
		rest = after
	}
	return item, nil
}

// shown returns a part of a host list for a message, at most 60 characters of it.
func shown(text string) string {
	if utf8.RuneCountInString(text) > 60 {
		text = string([]rune(text)[:60]) + "…"
	}
	return strconv.Quote(text)
}

func parseHostRange(text string) (hostRange, error) {
	low, high, is := strings.Cut(text, "-")
	if !is {
		high = low
	}
	r := hostRange{width: len(low)}
	for to, digits := range map[*uint64]string{&r.low: low, &r.high: high} {
		if digits == "" || strings.Trim(digits, "0123456789") != "" {
			return r, fmt.Errorf("%s is not a number or a range of numbers: write the part in brackets as in [01-16] or [1,3,7-9]", shown(text))
		}
		if len(digits) > maxHostlistDigits {
			return r, fmt.Errorf("%s has a number of more than %d digits", shown(text), maxHostlistDigits)
		}
		*to, _ = strconv.ParseUint(digits, 10, 64) // digits that fit
	}
	if r.low > r.high {
		return r, fmt.Errorf("the range %s ends before it begins: write the smaller number first", shown(text))
	}
	return r, nil
}

// name returns the item's current name.
func (i hostItem) name() string {
	var out strings.Builder
	for n, text := range i.texts {
		out.WriteString(text)
		if n == len(i.brackets) {
			break
		}
		b := i.brackets[n]
		r := b.ranges[b.at]
		number := strconv.FormatUint(r.low+b.offset, 10)
		out.WriteString(strings.Repeat("0", max(0, r.width-len(number))))
		out.WriteString(number)
	}
	return out.String()
}

// next moves to the next name, and reports whether there is one. As in Slurm, the last bracket changes fastest, and of the others the
// first.
func (i hostItem) next() bool {
	last := len(i.brackets) - 1
	if last < 0 {
		return false
	}
	if i.brackets[last].next() {
		return true
	}
	for n := range last {
		if i.brackets[n].next() {
			return true
		}
	}
	return false
}

// next moves to the next number. After the last one it returns to the first and reports false.
func (b *hostBracket) next() bool {
	if r := b.ranges[b.at]; b.offset < r.high-r.low {
		b.offset++
		return true
	}
	b.offset = 0
	b.at = (b.at + 1) % len(b.ranges)
	return b.at > 0
}
