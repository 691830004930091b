package env

import "strings"

// What NCCL's reader of nccl.conf holds of it (setEnvFile in src/misc/param.cc): bytes of a value, and of
// a line with its end. What follows in a longer line is read as a line of its own.
const (
	MaxConfValue = 1023
	MaxConfLine  = 4095
)

// ReadConf is what NCCL takes out of an nccl.conf, in the file's order: KEY=VALUE, nothing trimmed, the
// first of equal names wins, and what is no setting is passed over. It takes any bytes. NCCL before 2.30
// keeps the CR of a line that ends in CR LF, and so does this: a file is right if every NCCL reads it so.
func ReadConf(text string) (out []Set) {
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
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
