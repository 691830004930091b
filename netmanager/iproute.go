package netmanager

import (
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/providers/netif"
)

// ipRoute writes a route in the syntax of ip-route(8), for managers that call it.
func ipRoute(r netif.RouteSpec, netdev string, table int) string {
	words := []string{r.To.Masked().String()}
	if r.Via.IsValid() {
		words = append(words, "via", r.Via.String())
	}
	words = append(words, "dev", netdev)
	if r.OnLink {
		words = append(words, "onlink")
	}
	if r.Src.IsValid() {
		words = append(words, "src", r.Src.String())
	}
	if r.Metric != 0 {
		words = append(words, fmt.Sprintf("metric %d", r.Metric))
	}
	if table != 0 {
		words = append(words, fmt.Sprintf("table %d", table))
	}
	return strings.Join(append(words, fmt.Sprintf("proto %d", netif.Protocol)), " ")
}

// ipRule writes a rule in the syntax of ip-rule(8).
func ipRule(p netif.PolicyRouteSpec) string {
	from := "all"
	if p.From.IsValid() {
		from = p.From.String()
	}
	words := []string{"from", from}
	if p.To.IsValid() {
		words = append(words, "to", p.To.String())
	}
	return strings.Join(append(words, fmt.Sprintf("table %d priority %d", p.Table, p.Priority)), " ")
}
