package packagemanager

import (
	"context"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// rpmRDMA is Manager.RDMA of distributions with .rpm packages.
var rpmRDMA = []string{"libibverbs", "libibverbs-utils", "rdma-core"}

// rpmFormat prints an epoch only for packages that have one.
const rpmFormat = `%{NAME}\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\n`

func queryRPM(ctx context.Context, r host.Reader, wanted []string) map[string]Package {
	a, err := r.Inquire(ctx, "rpm", append([]string{"-q", "--qf", rpmFormat}, wanted...)...)
	if err != nil {
		return nil
	}
	return parseRPM(a.Stdout)
}

// parseRPM parses the output of `rpm -q` in rpmFormat. For a package that is not installed, rpm prints a sentence,
// which has no tab.
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
