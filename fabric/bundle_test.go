package fabric

import "testing"

func TestBundleNames(t *testing.T) {
	for name, want := range map[string]Bundle{
		"x/MLNX_OFED_LINUX-24.10-2.1.8.0-openeuler22.03sp3-x86_64.tar": {"mlnx_ofed", "24.10-2.1.8.0", "", "openeuler22.03sp3", "amd64", "tar"},
		"MLNX_OFED_LINUX-5.8-1.0.1.1-rhel8.6-aarch64.iso":              {"mlnx_ofed", "5.8-1.0.1.1", "", "rhel8.6", "arm64", "iso"},
		"MLNX_OFED_LINUX-24.10-0.7.0.0-ubuntu22.04-x86_64-ext.tgz":     {"mlnx_ofed", "24.10-0.7.0.0", "", "ubuntu22.04", "amd64", "tgz"},
		"doca-host-3.1.0-091000_25.07_ol96.x86_64.rpm":                 {"doca_ofed", "3.1.0-091000", "25.07", "ol96", "amd64", "rpm"},
		"doca-host_2.9.1-018000-24.10-ubuntu2204_amd64.deb":            {"doca_ofed", "2.9.1-018000", "24.10", "ubuntu2204", "amd64", "deb"},
		"MLNX_OFED_LINUX-24.10-2.1.8.0-$(x)-x86_64.tgz":                {},
		"MLNX_OFED_LINUX-24.10-2.1.8.0-ubuntu22.04-x86_64.tgz.part":    {},
		"MLNX_OFED_SRC-24.10-2.1.8.0.tgz":                              {},
		"":                                                             {},
	} {
		if got, ok := ParseBundle(name); got != want || ok != (want.Stack != "") {
			t.Errorf("%q: %+v", name, got)
		}
	}
	doca, _ := ParseBundle("doca-host-3.1.0-091000_25.07_ol96.x86_64.rpm")
	for version, want := range map[string]bool{"": true, "3.1.0": true, "3.1.0-091000": true, "25.07": true, "25.07-0.9.7": true, "25.0": false, "3.1": false} {
		if doca.Means(version) != want {
			t.Errorf("%q: %v", version, !want)
		}
	}
}
