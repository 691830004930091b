package env

import "strings"

// What NCCL's reader of nccl.conf holds of it (setEnvFile in src/misc/param.cc): bytes of a value, and of
// a line with its end. What follows in a longer line is read as a line of its own.
const (
	MaxConfValue = 1023
	MaxConfLine  = 4095
)

// ReadConf is what NCCL takes out of an nccl.conf, in the file's order: KEY=VALUE, nothing trimmed but the
// line's end, the first of equal names wins, and what is no setting is passed over. It takes any bytes.
func ReadConf(text string) (out []Set) {
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		for len(line) > 0 {
			piece := line[:min(len(line), MaxConfLine)]
			line = line[len(piece):]
			piece, _, _ = strings.Cut(piece, "\x00") // the end of a string, for C
			name, value, found := strings.Cut(piece, "=")
			if strings.HasPrefix(piece, "#") || !found || name == "" || seen[name] {
				continue
			}
			seen[name] = true
			out = append(out, Set{Name: name, Value: value[:min(len(value), MaxConfValue)]})
		}
	}
	return out
}
