package env

import "strings"

// Limits of NCCL's parser of nccl.conf (setEnvFile in src/misc/param.cc), in bytes: a value, and a line
// with its end. NCCL reads the rest of a longer line as another line.
const (
	MaxConfValue = 1023
	MaxConfLine  = 4095
)

// ReadConf returns the settings that NCCL reads from an nccl.conf, in the order of the file: KEY=VALUE,
// nothing trimmed, the first of equal names wins, and other lines are skipped. It accepts any bytes. Like
// NCCL before 2.30, it keeps the CR of a line that ends in CR LF, because a file must be right for every
// version.
func ReadConf(text string) (out []Set) {
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for len(line) > 0 {
			piece := line[:min(len(line), MaxConfLine)]
			line = line[len(piece):]
			piece, _, _ = strings.Cut(piece, "\x00") // C ends the string here
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
