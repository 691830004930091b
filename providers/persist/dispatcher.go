package persist

import (
	"fmt"
	"strings"
)

const dispatcherFolder = "/etc/NetworkManager/dispatcher.d"

// dispatcher writes a NIC's sysctls again once NetworkManager has set it up: it takes addr_gen_mode
// and accept_ra into its own hands (NetworkManager-dispatcher(8)).
func dispatcher(s Spec, ls []link, nm bool) (File, bool) {
	var names []string
	for _, l := range ls {
		if l.written() && len(l.WantedSysctls()) > 0 {
			names = append(names, l.Link.Name)
		}
	}
	text := "#!/bin/sh\n" + header(s.Fabric) + fmt.Sprintf(`[ "$2" = up ] || exit 0
case $1 in
%s) exec /usr/lib/systemd/systemd-sysctl "--prefix=/net/ipv4/conf/$1" "--prefix=/net/ipv6/conf/$1" ;;
esac
`, strings.Join(names, "|"))
	return File{Path: dispatcherFolder + "/90-" + base(s.Fabric), Mode: 0o755, Text: text}, nm && len(names) > 0
}
