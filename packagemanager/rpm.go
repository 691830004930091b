package packagemanager

import (
	"context"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// rpmRDMA are the packages of Manager.RDMA where packages are .rpm files.
var rpmRDMA = []string{"libibverbs", "libibverbs-utils", "rdma-core"}

// rpmFormat has an epoch only where there is one.
const rpmFormat = `%{NAME}\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\n`

func queryRPM(ctx context.Context, r host.Reader, wanted []string) map[string]Package {
	a, err := r.Inquire(ctx, "rpm", append([]string{"-q", "--qf", rpmFormat}, wanted...)...)
	if err != nil {
		return nil
	}
	return parseRPM(a.Stdout)
}

// parseRPM reads the answer of `rpm -q` with the format of rpmFormat; what is not installed is told
// in a sentence, which has no tab.
func parseRPM(answer string) map[string]Package {
	out := map[string]Package{}
	for line := range strings.Lines(answer) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && name != "" && version != "" {
			out[name] = Package{Version: strings.TrimPrefix(version, "(none):")}
		}
	}
	return out
}

func upgradeRPM(file string) host.Command { return command("rpm", "--upgrade", "--replacepkgs", file) }

func dracut(kernel string, _ bool) host.Command {
	return host.Command{Name: "dracut", Args: []string{"--force", "--kver", kernel}}
}
