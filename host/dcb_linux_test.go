package host

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestLoopbackHasNoDCB: the kernel says so, and answers about no other interface. Only reads are tried.
func TestLoopbackHasNoDCB(t *testing.T) {
	h, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	const get = 21 // DCB_CMD_IEEE_GET
	if _, err := h.DCB(t.Context(), []byte("\x00\x15\x00\x00\x07\x00\x01\x00lo\x00\x00")); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	if _, err := h.DCB(t.Context(), []byte{0, get, 0, 0}); err == nil {
		t.Error("a request without an interface is answered")
	}
	if _, err := h.Pause(t.Context(), 1); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	if _, err := h.Pause(t.Context(), 1<<30); err == nil || errors.Is(err, ErrUnsupported) {
		t.Error("an interface that does not exist:", err)
	}
}

// TestOnlySwitchesOfNICsAreWritten: a path that is none is refused before anything is opened.
func TestOnlySwitchesOfNICsAreWritten(t *testing.T) {
	good := []string{"/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "/sys/kernel/config/rdma_cm/rocep1s0f0/ports/2/default_roce_mode",
		"/sys/class/net/eth1/ecn/roce_np/enable/5", "/sys/class/net/eth1/ecn/roce_np/cnp_dscp"}
	bad := []string{"/etc/passwd", "/sys/class/net/eth1/mtu", "/sys/class/net/../../etc/ecn/roce_np/cnp_dscp", "/sys/class/net/eth1/ecn/roce_np/enable/8",
		"/sys/kernel/config/rdma_cm/../ports/1/default_roce_tos", "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos/x", "/sys/class/net/eth1/ecn/roce_np/cnp_dscp\n"}
	for _, path := range slices.Concat(good, bad) {
		if switches().MatchString(path) != slices.Contains(good, path) {
			t.Errorf("%q", path)
		}
	}
	for _, path := range []string{"/sys/kernel/config", "/sys/kernel/config/rdma_cm/", "/sys/kernel/config/rdma_cm/..", "/sys/kernel/config/rdma_cm/a/b", "/tmp/x"} {
		for _, err := range []error{(kernel{}).MakeConfig(path), (kernel{}).RemoveConfig(path)} {
			if err == nil || !strings.Contains(err.Error(), "is not a switch of a NIC") {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if err := (kernel{}).SetSwitch("/etc/passwd", "1"); err == nil || !strings.Contains(err.Error(), "is not a switch of a NIC") {
		t.Error(err)
	}
}
